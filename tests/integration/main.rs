mod store_contract;

fn main() {}
