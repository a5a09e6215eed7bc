// SPDX-License-Identifier: MIT
//! What glommio's own does, which looks for its C code beside Cargo.toml.

mod glommio {
    include!("source/glommio/build.rs");

    pub fn build() {
        main();
    }
}

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let source = format!("{here}/source/glommio");
    std::env::set_var("GLOMMIO_LIBURING_DIR", format!("{source}/liburing"));
    std::env::set_var("CARGO_MANIFEST_DIR", source);
    glommio::build();
}
