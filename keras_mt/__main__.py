from keras_mt.cli import main

main(prog_name="keras-mt")
