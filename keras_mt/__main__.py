from keras_mt.cli import main

if __name__ == "__main__":
    main(prog_name="keras-mt")
