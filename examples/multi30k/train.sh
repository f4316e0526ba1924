#!/bin/sh
# Trains a Multi30k translator in seven parts. The same command goes on with what was broken off.
#
# usage: sh examples/multi30k/train.sh FOLDER RUN_DIR [OPTIONS OF keras-mt train, LAST PART]
#
# FOLDER holds LANG.SPLIT.txt of en and de.
#
# 1. RUN_DIR_forward and RUN_DIR_backward: plain training, English to German and the other way.
# 2. RUN_DIR_forward_data and RUN_DIR_backward_data: the training captions with one side translated
#    by these (data diversification, Nguyen et al. 2020).
# 3. RUN_DIR_mixed: from the weights of RUN_DIR_forward, R-Drop (Liang et al. 2021) on all three.
# 4. RUN_DIR_first: from these weights, R-Drop on the captions alone.
# 5. RUN_DIR_sampled and, from its weights, RUN_DIR_second: plain training with subword sampling,
#    and R-Drop on the captions.
# 6. RUN_DIR_taught and RUN_DIR_taught_too: the English captions, and the English translations of
#    part 2, translated by RUN_DIR_first and RUN_DIR_second together (distillation, Kim and Rush
#    2016).
# 7. RUN_DIR: from the weights of RUN_DIR_first, R-Drop on the captions and these.
set -eu
folder=$1 run=$2
shift 2

train() { # SOURCE TARGET RUN_DIR OPTIONS
  source=$1 target=$2 output=$3
  shift 3
  keras-mt train --data "$folder" --source "$source" --target "$target" --output "$output" \
    --preset tiny --vocab-size 4000 --batch-tokens 2048 --dtype mixed_bfloat16 \
    --weights average --checkpoint-steps 299 "$@"
}

translated() { # SOURCE FILE, TARGET, NEW FOLDER, RUN_DIR [OPTIONS OF keras-mt translate]
  text=$1 target=$2 data=$3 run_dir=$4
  shift 4
  mkdir -p "$data"
  cp "$text" "$data"
  if [ ! -e "$data/$target.train.txt" ]; then
    keras-mt translate "$run_dir" "$@" --beam-size 5 --min-length 2 "$text" >"$data/unfinished"
    mv "$data/unfinished" "$data/$target.train.txt"
  fi
}

plain="--dropout 0.2 --warmup-steps 1000 --epochs 16"
train en de "${run}_forward" $plain
train de en "${run}_backward" $plain
translated "$folder/en.train.txt" de "${run}_forward_data" "${run}_forward"
translated "$folder/de.train.txt" en "${run}_backward_data" "${run}_backward"

rdrop="--dropout 0.1 --rdrop-weight 3 --warmup-steps 300"
train en de "${run}_mixed" --init "${run}_forward" --data "${run}_forward_data" \
  --data "${run}_backward_data" $rdrop --learning-rate 0.0015 --epochs 4
train en de "${run}_first" --init "${run}_mixed" $rdrop --learning-rate 0.001 --epochs 20 \
  --checkpoint-steps 598

train en de "${run}_sampled" --dropout 0.3 --subword-sampling 0.4 --warmup-steps 2000 \
  --learning-rate 0.003 --epochs 36
train en de "${run}_second" --init "${run}_sampled" $rdrop --learning-rate 0.0015 --epochs 18 \
  --checkpoint-steps 598
translated "$folder/en.train.txt" de "${run}_taught" "${run}_first" --ensemble "${run}_second"
translated "${run}_backward_data/en.train.txt" de "${run}_taught_too" "${run}_first" \
  --ensemble "${run}_second"

train en de "$run" --init "${run}_first" --data "${run}_taught" --data "${run}_taught_too" \
  $rdrop --learning-rate 0.001 --epochs 13 --checkpoint-steps 598 --bleu-freq 1 "$@"
