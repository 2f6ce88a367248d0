// Counts the members of a tar and their bytes, through bindings that bindgen made.
#![allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals)]
use std::ffi::{CStr, CString};
use std::mem::{size_of, MaybeUninit};

include!(concat!(env!("BINDINGS"), "/bindings.rs"));

fn message(err: &tarn_error) -> String {
    unsafe { CStr::from_ptr(err.message.as_ptr()) }.to_string_lossy().into_owned()
}

unsafe fn open(path: &str, err: &mut tarn_error) -> Result<*mut tarn_tar, tarn_status> {
    let path = CString::new(path).unwrap();
    let mut options = MaybeUninit::<tarn_tar_options>::uninit();
    let mut tar = std::ptr::null_mut();
    tarn_tar_options_init(options.as_mut_ptr(), size_of::<tarn_tar_options>() as _);
    match tarn_tar_open(path.as_ptr(), options.as_ptr(), &mut tar, err) {
        tarn_status_TARN_OK => Ok(tar),
        status => Err(status),
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("usage: count FILE.tar");
    let mut bytes = 0;
    unsafe {
        let mut err: tarn_error = std::mem::zeroed();
        let mut member: tarn_member = std::mem::zeroed();
        let mut counts: tarn_tar_counts = std::mem::zeroed();
        assert_eq!(open("/no/such.tar", &mut err), Err(tarn_status_TARN_ERR_NO_FILE));
        assert!(message(&err).contains("No such file"), "{}", message(&err));
        let tar = open(&path, &mut err).unwrap_or_else(|_| panic!("{}", message(&err)));
        while tarn_tar_next(tar, &mut member, &mut err) == tarn_status_TARN_OK {
            bytes += member.size;
        }
        tarn_tar_counts_get(tar, &mut counts, size_of::<tarn_tar_counts>() as _);
        tarn_tar_close(tar);
        println!("{} members, {} bytes", counts.members, bytes);
    }
}
