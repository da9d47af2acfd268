//! The process that reads one document and ends. First it takes from itself what a document could use: memory and
//! processor time beyond the limits, and the right to write files.

use super::super::limits::Budget;
use super::super::{ExtractError, Limits, unpack};
use super::wire::{Answer, Request, Task, Unpacked};
use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};

/// Reads a request and answers it.
///
/// # Errors
/// What is sent is no request, or nobody takes the answer.
pub fn run(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let request = Request::read_line(&mut input)?;
    confine(&request.limits)?;
    let bytes = request.read_bytes(&mut input)?;
    // What a panic says may quote the document.
    panic::set_hook(Box::new(|_| {}));
    let gave_up = || ExtractError::Corrupt("its reader gave up on it".to_owned());
    if request.task == Task::Read {
        let answer = panic::catch_unwind(AssertUnwindSafe(|| request.answer(&bytes)));
        return answer.unwrap_or_else(|_| Answer(Err(gave_up()))).write(&mut output);
    }
    let unpacked = panic::catch_unwind(AssertUnwindSafe(|| unpack(&request, &bytes, &mut output)));
    Unpacked::End(unpacked.unwrap_or_else(|_| Err(gave_up()))).write(&mut output)?;
    output.flush()
}

fn unpack(request: &Request, bytes: &[u8], output: &mut impl Write) -> Result<(), ExtractError> {
    let budget = Budget::new(request.limits, bytes.len());
    unpack::unpack(bytes, &budget, &mut |name, file| {
        let told = match file {
            Ok(file) => Unpacked::File { name: name.to_owned(), bytes: file.len() }
                .write(output)
                .and_then(|()| output.write_all(&file)),
            Err(why) => Unpacked::Refused { name: name.to_owned(), why }.write(output),
        };
        told.and_then(|()| output.flush()).map_err(|error| ExtractError::ReaderFailed(error.to_string()))
    })
}

/// Address space that is used without being memory: the program itself, stacks, what allocators set aside.
#[cfg(target_os = "linux")]
const ADDRESSES: u64 = 2 << 30;
/// Standard input, output and errors, and a few to spare.
#[cfg(target_os = "linux")]
const FILES: u64 = 16;

#[cfg(target_os = "linux")]
fn confine(limits: &Limits) -> io::Result<()> {
    use rlimit::Resource;
    let seconds = limits.max_cpu.as_secs().max(1);
    for (resource, most) in [
        (Resource::DATA, limits.max_memory_bytes),
        (Resource::AS, limits.max_memory_bytes.saturating_add(ADDRESSES)),
        (Resource::FSIZE, 0),
        (Resource::CORE, 0),
        (Resource::NOFILE, FILES),
    ] {
        // Stricter limits that are there already stay.
        let (_, hard) = resource.get()?;
        resource.set(most.min(hard), most.min(hard))?;
    }
    let (_, hard) = Resource::CPU.get()?;
    Resource::CPU.set(seconds.min(hard), (seconds + 1).min(hard))
}

/// Elsewhere the wall clock and what is counted while unpacking hold the limits.
#[cfg(not(target_os = "linux"))]
fn confine(_: &Limits) -> io::Result<()> {
    Ok(())
}
