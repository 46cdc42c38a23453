use super::*;

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 7, 10 + number])
}

fn member(number: u8) -> Member {
    Member {
        id: MemberId(u64::from(number)),
        hostname: format!("cp-{number}"),
        peer_urls: vec![format!("https://{}:2380", address(number))],
        is_learner: false,
    }
}

fn members(numbers: &[u8]) -> Vec<Member> {
    numbers.iter().copied().map(member).collect()
}

fn asked(number: u8, said: Said) -> Asked {
    Asked { name: format!("cp-{number}"), addresses: vec![address(number)], said }
}

/// A member that is well and knows these.
fn well(number: u8, known: &[u8]) -> Asked {
    asked(number, Said::Member(Voice { complaint: None, members: Some(members(known)) }))
}

fn sick(number: u8) -> Asked {
    asked(number, Said::Member(Voice { complaint: Some("etcd is Failed".to_owned()), members: None }))
}

fn silent(number: u8) -> Asked {
    asked(number, Said::Silent("Connection refused".to_owned()))
}

fn with<R>(declared: usize, change: impl FnOnce(&mut Leaving<'_>) -> R, asked: &[Asked]) -> Verdict {
    let node = NodeName::parse("cp-1").unwrap();
    let mut leaving = Leaving {
        node: &node,
        declared,
        is_declared: true,
        fate: Fate::Returns,
        all_stop: false,
        begun: true,
    };
    change(&mut leaving);
    judge(&leaving, asked)
}

fn verdict(declared: usize, asked: &[Asked]) -> Verdict {
    with(declared, |_| (), asked)
}

/// A machine answers for the member it is, not for one of before that has its name.
#[test]
fn a_member_of_the_past_is_not_well_because_another_has_its_name() {
    let mut known = members(&[1, 2, 3]);
    known.push(Member { id: MemberId(9), peer_urls: vec!["https://10.0.9.9:2380".to_owned()], ..member(3) });
    let well = |number| asked(number, Said::Member(Voice { complaint: None, members: Some(known.clone()) }));
    let Verdict::NotYet(why) = verdict(3, &[well(1), well(2), well(3)]) else { panic!("it passes") };
    assert!(why.starts_with("etcd has 2 members that seem to be cp-3"), "{why}");
}

#[test]
fn all_others_that_vote_must_be_well() {
    let three = [1, 2, 3];
    let others = |second: Asked, third: Asked| verdict(3, &[well(1, &three), second, third]);
    assert_eq!(others(well(2, &three), well(3, &three)), Verdict::Pass);
    for third in [sick(3), silent(3), asked(3, Said::Off), asked(3, Said::NoMachine), asked(3, Said::Empty)] {
        let Verdict::NotYet(why) = others(well(2, &three), third) else { panic!("it passes") };
        assert!(why.starts_with("cp-3 is not well: "), "{why}");
    }
    // Of five, four are left: one of them that is not well is one too many all the same.
    let five = [1, 2, 3, 4, 5];
    let asked = [well(1, &five), well(2, &five), well(3, &five), well(4, &five), silent(5)];
    assert!(matches!(verdict(5, &asked), Verdict::NotYet(_)));
}

#[test]
fn one_that_is_sick_itself_may_restart() {
    let three = [1, 2, 3];
    for own in [sick(1), silent(1), asked(1, Said::Off)] {
        assert_eq!(verdict(3, &[own, well(2, &three), well(3, &three)]), Verdict::Pass);
    }
}

/// Of five two are dead: neither could be built anew if each had to wait for the other.
#[test]
fn the_dead_need_not_wait_for_the_dead() {
    let five = [1, 2, 3, 4, 5];
    let gone = |leaving: &mut Leaving<'_>| leaving.fate = Fate::Gone;
    let rest = [well(3, &five), well(4, &five), well(5, &five)];
    for own in [asked(1, Said::Off), asked(1, Said::NoMachine), silent(1), asked(1, Said::Empty)] {
        for other in [asked(2, Said::Off), asked(2, Said::NoMachine), silent(2)] {
            let all: Vec<Asked> = [own.clone(), other].into_iter().chain(rest.clone()).collect();
            assert_eq!(with(5, gone, &all), Verdict::Pass);
            // To come back it has to wait, as everybody has.
            assert!(matches!(verdict(5, &all), Verdict::NotYet(_)));
        }
    }
    // What still has a part in etcd is not dead, and three of five must be left.
    let all: Vec<Asked> = [well(1, &five), silent(2)].into_iter().chain(rest.clone()).collect();
    assert!(matches!(with(5, gone, &all), Verdict::NotYet(_)));
    let two = [silent(1), silent(2), silent(3), well(4, &five), well(5, &five)];
    assert!(matches!(with(5, gone, &two), Verdict::NotYet(_)));
}

/// Built anew it comes back; until it has, nobody else leaves.
#[test]
fn nobody_leaves_to_be_built_anew_while_another_is_missing() {
    let leaves = |leaving: &mut Leaving<'_>| leaving.fate = Fate::Leaves;
    let both = [well(1, &[1, 2]), well(2, &[1, 2]), asked(3, Said::Empty)];
    let Verdict::NotYet(why) = with(3, leaves, &both) else { panic!("it passes") };
    assert!(why.contains("others are to join"), "{why}");
    let three = [well(1, &[1, 2, 3]), well(2, &[1, 2, 3]), well(3, &[1, 2, 3])];
    assert_eq!(with(3, leaves, &three), Verdict::Pass);
    // One that is not described leaves for good.
    let for_good = |leaving: &mut Leaving<'_>| {
        leaving.fate = Fate::Leaves;
        leaving.is_declared = false;
    };
    assert_eq!(with(1, for_good, &both[..2]), Verdict::Pass);
}

#[test]
fn nobody_goes_while_somebody_joins() {
    let mut known = members(&[1, 2, 3]);
    known[2].is_learner = true;
    known[2].hostname = String::new();
    let voice = |number| asked(number, Said::Member(Voice { complaint: None, members: Some(known.clone()) }));
    let Verdict::NotYet(why) = verdict(3, &[voice(1), voice(2), silent(3)]) else { panic!("it passes") };
    assert!(why.contains("is joining etcd"), "{why}");
    // One that joins takes no vote away by going.
    let node = NodeName::parse("cp-3").unwrap();
    let leaving = Leaving {
        node: &node,
        declared: 3,
        is_declared: true,
        fate: Fate::Gone,
        all_stop: false,
        begun: true,
    };
    assert_eq!(judge(&leaving, &[voice(1), voice(2), silent(3)]), Verdict::Pass);
}

#[test]
fn two_members_can_spare_none_but_let_one_leave() {
    let both = [well(1, &[1, 2]), well(2, &[1, 2])];
    assert!(matches!(verdict(2, &both), Verdict::Never(_)));
    assert!(matches!(verdict(3, &both), Verdict::NotYet(_)), "a third is to join");
    let leaves = |leaving: &mut Leaving<'_>| leaving.fate = Fate::Leaves;
    assert_eq!(with(1, leaves, &both), Verdict::Pass);
    // A vote of two needs both.
    assert!(matches!(with(1, leaves, &[silent(1), well(2, &[1, 2])]), Verdict::Never(_)));
}

#[test]
fn the_only_member_goes_only_where_it_is_the_only_one_described() {
    let only = [well(1, &[1])];
    assert_eq!(verdict(1, &only), Verdict::Pass);
    assert_eq!(verdict(1, &[silent(1)]), Verdict::Pass);
    assert!(matches!(verdict(3, &[well(1, &[1]), silent(2), silent(3)]), Verdict::NotYet(_)));
    for own in [well(1, &[1]), silent(1), asked(1, Said::Off)] {
        let for_good = with(1, |leaving| leaving.fate = Fate::Gone, &[own]);
        assert!(matches!(for_good, Verdict::Never(_)), "{for_good:?}");
    }
}

#[test]
fn who_has_no_data_takes_none_away() {
    for own in [Said::Empty, Said::NoMachine] {
        assert_eq!(verdict(3, &[asked(1, own), silent(2), silent(3)]), Verdict::Pass);
    }
    // Nor does one the members do not know, or no longer.
    assert_eq!(verdict(3, &[silent(1), well(2, &[2, 3]), well(3, &[2, 3])]), Verdict::Pass);
}

#[test]
fn what_is_not_known_is_refused() {
    for own in [silent(1), sick(1), asked(1, Said::Off)] {
        let Verdict::NotYet(why) = verdict(3, &[own, silent(2), sick(3)]) else { panic!("it passes") };
        assert!(why.contains("no member of etcd says"), "{why}");
    }
    // Two etcds, each well.
    let split = [well(1, &[1]), well(2, &[2, 3]), well(3, &[2, 3])];
    assert!(matches!(verdict(3, &split), Verdict::NotYet(_)));
    // A member nobody asked.
    let unknown = [well(1, &[1, 2, 9]), well(2, &[1, 2, 9])];
    assert!(matches!(verdict(2, &unknown), Verdict::NotYet(_)));
}

#[test]
fn a_cluster_that_is_described_as_stopped_stops() {
    let stops = |leaving: &mut Leaving<'_>| leaving.all_stop = true;
    assert_eq!(with(3, stops, &[sick(1), asked(2, Said::Off), asked(3, Said::Off)]), Verdict::Pass);
    assert_eq!(with(2, stops, &[well(1, &[1, 2]), well(2, &[1, 2])]), Verdict::Pass);
}

#[test]
fn before_the_bootstrap_whoever_is_not_described_may_go() {
    let empty = Asked { name: "cp-1".to_owned(), addresses: Vec::new(), said: Said::Empty };
    let gone =
        Asked { name: "w-9".to_owned(), addresses: Vec::new(), said: Said::Silent("refused".to_owned()) };
    let node = NodeName::parse("w-9").unwrap();
    let leaving = |begun| Leaving {
        node: &node,
        declared: 1,
        is_declared: false,
        fate: Fate::Gone,
        all_stop: false,
        begun,
    };
    let asked = [empty, gone.clone()];
    assert_eq!(judge(&leaving(false), &asked), Verdict::Pass);
    assert!(matches!(judge(&leaving(true), &asked), Verdict::NotYet(_)), "its data may be the only one");
    let silent =
        Asked { name: "cp-1".to_owned(), addresses: Vec::new(), said: Said::Silent("refused".to_owned()) };
    assert!(matches!(judge(&leaving(false), &[silent, gone]), Verdict::NotYet(_)));
}

#[test]
fn what_is_given_up_must_really_have_no_majority() {
    let given_up = |leaving: &mut Leaving<'_>| leaving.fate = Fate::GivenUp;
    assert_eq!(with(3, given_up, &[sick(1), silent(2), asked(3, Said::NoMachine)]), Verdict::Pass);
    assert!(matches!(verdict(3, &[sick(1), silent(2), asked(3, Said::NoMachine)]), Verdict::NotYet(_)));
    let three = [1, 2, 3];
    let two_are_well = [well(1, &three), well(2, &three), silent(3)];
    assert!(matches!(with(3, given_up, &two_are_well), Verdict::NotYet(_)));
}
