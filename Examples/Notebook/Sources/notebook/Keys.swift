import Foundation
import Quire
import QuireDocuments

/// The keys of protected notebooks.
///
/// The user has one keybag, which a passphrase unlocks. Its domain keeps the notebooks protected with it unlocked until the process
/// ends. The passphrase is not stored: without it, protected notebooks are lost.
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

    /// Runs a closure that opens a notebook, and asks for the passphrase until it succeeds.
    static func unlocking(
        _ path: String, by prompt: Prompt, _ open: () async throws -> Void
    ) async throws {
        var reason = "“\(path)” is protected."
        // Retained until the document is open and retains it: a domain is locked when it is released.
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

    /// Protects a closed notebook, and creates the keybag if it does not exist.
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

    /// Removes the protection of a closed, unlocked notebook.
    static func removeProtection(_ path: String) async throws {
        try await setProtection(.none, path, nil)
    }

    /// Rewrites the whole notebook, off the main actor.
    private static func setProtection(
        _ protection: FileProtection, _ path: String, _ domain: ProtectionDomain?
    ) async throws {
        try await Task.detached {
            try DocumentPackage.setFileProtection(protection, ofDocumentAt: path, domain: domain)
        }.value
    }
}
