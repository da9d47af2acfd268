mod store_contract;
mod upstream;

fn main() {}
