#!/bin/sh
# Trains a Multi30k translator in several parts. The same command goes on with what was broken off.
#
# usage: sh examples/multi30k/train.sh tiny|small FOLDER RUN_DIR [OPTIONS OF keras-mt train]
#
# FOLDER holds LANG.SPLIT.txt of en and de. tiny is for a processor; its options are those of the
# last part:
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
#
# small, which the committed runs are, is for a GPU; its options are those of all parts from English:
#
# 1. RUN_DIR_first and RUN_DIR_second, with another seed, and RUN_DIR_backward: R-Drop on the
#    captions, English to German and, the last, the other way.
# 2. RUN_DIR_taught and RUN_DIR_taught_too as above, and RUN_DIR_backward_data.
# 3. RUN_DIR and RUN_DIR_other: from the weights of the first two, R-Drop on the captions, twice in
#    an epoch, and on these three.
set -eu
preset=$1 folder=$2 run=$3
shift 3

train() { # SOURCE TARGET RUN_DIR OPTIONS
  source=$1 target=$2 output=$3
  shift 3
  keras-mt train --data "$folder" --source "$source" --target "$target" --output "$output" \
    --preset "$preset" --vocab-size 4000 --dtype mixed_bfloat16 --weights average "$@"
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

taught() { # By both, the English captions and the translations into English.
  translated "$folder/en.train.txt" de "${run}_taught" "${run}_first" --ensemble "${run}_second"
  translated "${run}_backward_data/en.train.txt" de "${run}_taught_too" "${run}_first" \
    --ensemble "${run}_second"
}

tiny() {
  plain="--batch-tokens 2048 --checkpoint-steps 299 --dropout 0.2 --warmup-steps 1000 --epochs 16"
  train en de "${run}_forward" $plain
  train de en "${run}_backward" $plain
  translated "$folder/en.train.txt" de "${run}_forward_data" "${run}_forward"
  translated "$folder/de.train.txt" en "${run}_backward_data" "${run}_backward"

  rdrop="--batch-tokens 2048 --dropout 0.1 --rdrop-weight 3 --warmup-steps 300"
  train en de "${run}_mixed" --init "${run}_forward" --data "${run}_forward_data" \
    --data "${run}_backward_data" $rdrop --learning-rate 0.0015 --epochs 4 --checkpoint-steps 299
  rdrop="$rdrop --checkpoint-steps 598"
  train en de "${run}_first" --init "${run}_mixed" $rdrop --learning-rate 0.001 --epochs 20

  train en de "${run}_sampled" --batch-tokens 2048 --dropout 0.3 --subword-sampling 0.4 \
    --warmup-steps 2000 --learning-rate 0.003 --epochs 36 --checkpoint-steps 299
  train en de "${run}_second" --init "${run}_sampled" $rdrop --learning-rate 0.0015 --epochs 18
  taught
  train en de "$run" --init "${run}_first" --data "${run}_taught" --data "${run}_taught_too" \
    $rdrop --learning-rate 0.001 --epochs 13 --bleu-freq 1 "$@"
}

small() {
  rdrop="--batch-tokens 4096 --rdrop-weight 3 --warmup-steps 2000"
  plain="$rdrop --learning-rate 0.0012 --epochs 40 --checkpoint-steps 506"
  train en de "${run}_first" $plain "$@"
  train en de "${run}_second" $plain --seed 2 "$@"
  train de en "${run}_backward" $plain --seed 3
  translated "$folder/de.train.txt" en "${run}_backward_data" "${run}_backward"
  taught
  tuned "$run" "${run}_first" --seed 4 "$@"
  tuned "${run}_other" "${run}_second" --seed 5 "$@"
}

tuned() { # RUN_DIR, RUN_DIR TO BEGIN FROM, OPTIONS
  output=$1 init=$2
  shift 2
  train en de "$output" --init "$init" --data "${run}_taught" --data "${run}_backward_data" \
    --data "${run}_taught_too" --corpus-weight 2 --corpus-weight 1 --corpus-weight 1 \
    --corpus-weight 1 $rdrop --learning-rate 0.001 --epochs 8 --checkpoint-steps 2000 "$@"
}

case $preset in
  tiny | small) "$preset" "$@" ;;
  *) echo "usage: sh $0 tiny|small FOLDER RUN_DIR [OPTIONS]" >&2; exit 2 ;;
esac
