#!/bin/sh
# Trains a Multi30k run in two parts. The same command goes on with a run that was broken off.
#
# usage: sh examples/multi30k/train.sh FOLDER RUN_DIR [ARGUMENTS OF keras-mt train, SECOND PART]
#
# FOLDER holds LANG.SPLIT.txt of en and de; where its name ends in _tokenized, BLEU is measured
# without sacreBLEU's tokenizer. The first part, RUN_DIR_plain, is quick; the second goes on from its
# weights with R-Drop, which takes two passes a step and would learn slowly from nothing.
set -eu
folder=$1 run=$2
shift 2
case $folder in
*_tokenized) tokenize=none ;;
*) tokenize=13a ;;
esac
train() {
  keras-mt train --data "$folder" --source en --target de --preset tiny --vocab-size 4000 \
    --batch-tokens 2048 --dtype mixed_bfloat16 --checkpoint-steps 299 --bleu-tokenize "$tokenize" "$@"
}
train --output "${run}_plain" --dropout 0.2 --warmup-steps 1000 --epochs 16 --average 5
train --output "$run" --init "${run}_plain" --dropout 0.1 --rdrop 3 --warmup-steps 300 \
  --learning-rate 0.0015 --epochs 60 --keep 10 --average 10 --bleu-epochs 1 "$@"
