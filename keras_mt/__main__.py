from keras_mt.cli import main

main()
