//! The entry: reads the command line, runs one command, ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    tailrace::cli::main()
}
