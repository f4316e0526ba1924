#!/bin/sh
# Trains one of the two Multi30k runs. The same command goes on with a run that was broken off.
#
# usage: sh examples/multi30k/train.sh FOLDER RUN_DIR [ARGUMENTS OF keras-mt train]
#
# FOLDER holds LANG.SPLIT.txt of en and de; where its name ends in _tokenized, BLEU is measured
# without sacreBLEU's tokenizer.
set -eu
folder=$1 run=$2
shift 2
case $folder in
*_tokenized) tokenize=none ;;
*) tokenize=13a ;;
esac
exec keras-mt train --data "$folder" --source en --target de --preset tiny --output "$run" \
  --vocab-size 4000 --batch-tokens 2048 --dropout 0.3 --rdrop 5 --subword-sampling 0.4 \
  --warmup-steps 2000 --learning-rate 0.003 --dtype mixed_bfloat16 --epochs 70 \
  --checkpoint-steps 299 --keep 10 --average 10 --bleu-epochs 5 --bleu-tokenize "$tokenize" "$@"
