import Foundation
import Quire
import QuireDocuments

/// The keys of protected notebooks.
///
/// The user has one keybag, which a passphrase unlocks. Its domain unlocks each notebook that is protected with it, as long as the
/// process runs. The passphrase is nowhere: who forgets it has lost what is protected.
@MainActor
enum Keys {
    /// Asks the user for a passphrase.
    typealias Prompt = @MainActor (_ reason: String) async throws -> String

    /// The domain of the user's keybag: Quire has the keys as long as it is retained.
    private static var domain: ProtectionDomain?

    private static let keybag = dataFolder.appendingPathComponent("Notebook.keybag")

    /// The user's folder for what this program keeps.
    static let dataFolder = FileManager.default
        .urls(for: .applicationSupportDirectory, in: .userDomainMask)[0]
        .appendingPathComponent("notebook")

    /// Whether the user has a keybag already.
    static var exist: Bool { FileManager.default.fileExists(atPath: keybag.path) }

    /// Opens something of a notebook, and asks for the passphrase as often as it is locked.
    static func unlocking(
        _ path: String, by prompt: Prompt, _ open: () async throws -> Void
    ) async throws {
        var reason = "“\(path)” is protected."
        // Held until the document is open, which then holds it: a domain that nobody holds is locked.
        var own: ProtectionDomain?
        while true {
            do {
                if exist, domain == nil { domain = try ProtectionDomain.domain(of: keybag.path) }
                return try await open()
            } catch let error as QuireError where error.code == .protectedDataUnavailable {
                let passphrase = try await prompt(reason)
                own = try DocumentPackage.protectionDomain(at: path)
                do {
                    try await unlock([domain, own].compactMap(\.self), passphrase)
                } catch let error as QuireError where error.code == .wrongKey {
                    reason = error.message
                }
            }
        }
    }

    /// Unlocks the first domain that a passphrase opens: the user's, or the notebook's, which may have one of its own.
    private static func unlock(_ domains: [ProtectionDomain], _ passphrase: String) async throws {
        for domain in domains {
            do { return try await domain.unlock(passphrase: passphrase) } catch let error
                as QuireError where error.code == .wrongKey && domain !== domains.last
            {}
        }
    }

    /// Protects a notebook that is not open, with a keybag that is made if there is none.
    static func protect(_ path: String, passphrase: String) async throws {
        if exist {
            let domain = try domain ?? ProtectionDomain.domain(of: keybag.path)
            try await domain.unlock(passphrase: passphrase)
            self.domain = domain
        } else {
            try FileManager.default.createDirectory(
                at: dataFolder, withIntermediateDirectories: true)
            domain = try await ProtectionDomain.setUp(at: keybag.path, passphrase: passphrase)
        }
        try await setProtection(.complete, path, domain)
    }

    /// Removes the protection of a notebook that is not open, and not locked.
    static func removeProtection(_ path: String) async throws {
        try await setProtection(.none, path, nil)
    }

    /// Writes the whole notebook anew, off the main actor.
    private static func setProtection(
        _ protection: FileProtection, _ path: String, _ domain: ProtectionDomain?
    ) async throws {
        try await Task.detached {
            try DocumentPackage.setFileProtection(protection, ofDocumentAt: path, domain: domain)
        }.value
    }
}
