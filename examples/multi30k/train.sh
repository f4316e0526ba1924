#!/bin/sh
# Trains a Multi30k translator in four parts. The same command goes on with what was broken off.
#
# usage: sh examples/multi30k/train.sh FOLDER RUN_DIR [OPTIONS OF keras-mt train, LAST PART]
#
# FOLDER holds LANG.SPLIT.txt of en and de; where its name ends in _tokenized, BLEU is measured
# without sacreBLEU's tokenizer.
#
# 1. RUN_DIR_forward and RUN_DIR_backward: plain training, English to German and the other way.
# 2. RUN_DIR_forward_data and RUN_DIR_backward_data: the training captions with one side translated
#    by these (data diversification, Nguyen et al. 2020).
# 3. RUN_DIR_mixed: from the weights of RUN_DIR_forward, R-Drop (Liang et al. 2021) on all three.
# 4. RUN_DIR: from these weights, R-Drop on the captions alone.
set -eu
folder=$1 run=$2
shift 2
case $folder in
*_tokenized) tokenize=none ;;
*) tokenize=13a ;;
esac

train() { # SOURCE TARGET RUN_DIR OPTIONS
  source=$1 target=$2 output=$3
  shift 3
  keras-mt train --data "$folder" --source "$source" --target "$target" --output "$output" \
    --preset tiny --vocab-size 4000 --batch-tokens 2048 --dtype mixed_bfloat16 \
    --checkpoint-steps 299 --bleu-tokenize "$tokenize" "$@"
}

diversify() { # SOURCE TARGET RUN_DIR
  data=$3_data
  mkdir -p "$data"
  cp "$folder/$1.train.txt" "$data"
  if [ ! -e "$data/$2.train.txt" ]; then
    keras-mt translate "$3" --beam-size 5 --min-length 2 "$folder/$1.train.txt" >"$data/unfinished"
    mv "$data/unfinished" "$data/$2.train.txt"
  fi
}

plain="--dropout 0.2 --warmup-steps 1000 --epochs 16 --average 5"
train en de "${run}_forward" $plain
train de en "${run}_backward" $plain
diversify en de "${run}_forward"
diversify de en "${run}_backward"

rdrop="--dropout 0.1 --rdrop 3 --warmup-steps 300"
train en de "${run}_mixed" --init "${run}_forward" --data "${run}_forward_data" \
  --data "${run}_backward_data" $rdrop --learning-rate 0.0015 --epochs 4 --average 3
train en de "$run" --init "${run}_mixed" $rdrop --learning-rate 0.001 --epochs 20 \
  --keep 10 --average 10 --bleu-epochs 1 "$@"
