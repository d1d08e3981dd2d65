/// When the contents of a store or document can be read and written: Apple's four classes of data protection.
///
/// The keys belong to a ``ProtectionDomain``. What is protected is sealed on disk at all times; the class says what can be
/// done with it while the domain is locked.
///
/// | class | before the first unlock | unlocked | locked again |
/// |---|---|---|---|
/// | ``none`` | everything | everything | everything |
/// | ``completeUntilFirstUserAuthentication`` | nothing | everything | everything |
/// | ``completeUnlessOpen`` | new ones are made and used; none is opened | everything | what is open goes on; new ones are made; none is opened |
/// | ``complete`` | nothing | everything | nothing |
///
/// Source: *Data Protection classes* in Apple's Platform Security guide, and `FileProtectionType` of Foundation.
public enum FileProtection: String, Codable, Hashable, Sendable, CaseIterable {
    /// Not sealed: whoever can read the files can read what is in them.
    case none
    /// Readable and writable only while the domain is unlocked.
    case complete
    /// As ``complete``, but what is open when the domain is locked can be used until it is closed, and new ones can be made.
    case completeUnlessOpen
    /// Readable and writable from the first time that the domain is unlocked until the process, or the login, ends.
    case completeUntilFirstUserAuthentication
}
