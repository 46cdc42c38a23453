//! Parts that several documents share.

use super::{Struct, Type, always, value};

pub(super) static CERTIFICATE_AND_KEY_BASE64: Struct =
    Struct::whole(&[always("crt", Type::Base64), always("key", Type::Base64).secret()]);

pub(super) static CERTIFICATE_BASE64: Struct = Struct::whole(&[always("crt", Type::Base64)]);

pub(super) static KEY_BASE64: Struct = Struct::whole(&[always("key", Type::Base64).secret()]);

pub(super) static CERTIFICATE_AND_KEY: Struct =
    Struct::of(&[value("cert", Type::Text), value("key", Type::Text).secret()]);
