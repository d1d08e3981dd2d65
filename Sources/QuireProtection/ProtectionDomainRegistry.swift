import Foundation
import QuireSystem

/// The domains that this process has, so that a keybag gives the same one as long as something holds it.
///
/// A keybag is known by its identifier and its class keys: a copy that somebody has made with the same identifier and other
/// keys is another one. A true copy at another path, as of a document that was copied, is another one too, because its slots
/// are its own; unless the file is no longer where it was: then it was moved.
enum ProtectionDomainRegistry {
    private static let domains = Lock(WeakList<ProtectionDomain>())

    static func add(_ domain: ProtectionDomain) { domains.withLock { $0.append(domain) } }

    /// The domain of a keybag that was read from a file: one that is there, or a new one, locked.
    static func domain(of keybag: Keybag, in file: KeybagFile) -> ProtectionDomain {
        let digest = keybag.classKeyDigest
        // Two that are asked for at once get the same.
        return domains.withLock { domains in
            let same = domains.objects.filter {
                $0.identifier == keybag.identifier && $0.classKeyDigest == digest
            }
            if let found = same.first(where: { $0.path == file.path }) {
                found.adopt(keybag)
                return found
            }
            let information = file.information
            for domain in same {
                guard let formerFile = domain.state.withLock({ $0.file }) else { continue }
                if let former = formerFile.information {
                    // Another path may lead to it through a symbolic link.
                    guard information?.isSameFile(as: former) == true else { continue }
                } else {
                    domain.didMove(to: file.path, beneath: file.root)
                }
                domain.adopt(keybag)
                return domain
            }
            let domain = ProtectionDomain(keybag, file: file)
            domains.append(domain)
            return domain
        }
    }

    /// The domains of keybags with an identifier.
    static func domains(_ identifier: UUID) -> [ProtectionDomain] {
        domains.withLock { $0.objects }.filter { $0.identifier == identifier }
    }
}
