"""What every backend must do, tried from the outside."""
