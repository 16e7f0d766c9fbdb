//! `.env` files.
