//! When a VM starts and how long its host waits.

use crate::property::Grammar;
use crate::property::macros::property_struct;

property_struct! {
    /// `startup`: position, and seconds to wait after start and for shutdown.
    ///
    /// Proxmox keeps this text as it was given; it prints here as people write it, `order=4,up=15,down=60`.
    Startup: Grammar::new("a start order")
        .default_key("order")
        .print_default_key()
        .repeatable()
        .leading(&["up", "down"]);
    required {}
    optional {
        order: u32 => "order";
        up: u32 => "up";
        down: u32 => "down";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_parts_does_not_matter() {
        let text = "order=4,up=15,down=60";
        for same in [text, "4,up=15,down=60", "down=60,up=15,order=4", "up=15,4,down=060"] {
            assert_eq!(Startup::parse(same).unwrap().to_string(), text, "{same}");
        }
        assert_eq!(
            Startup::parse("order=5,down=1,4,up=15,down=60").unwrap().to_string(),
            text,
            "the last one counts"
        );
        assert!(Startup::parse("any").is_err());
    }
}
