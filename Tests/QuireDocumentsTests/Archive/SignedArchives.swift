import Crypto
import Foundation
import QuireTestSupport

@testable import QuireDocuments

/// Signs in the form of OpenSSH, without the program, also what no honest program signs.
struct TestSigner {
    var key = Curve25519.Signing.PrivateKey()
    /// Whether the key is that of a FIDO authenticator.
    var isHardware = false
    var type: String?
    var version: UInt32 = 1
    var namespace = "quire-archive"
    var hash = "sha512"
    var reserved = Data()

    private var keyType: String {
        type ?? (isHardware ? "sk-ssh-ed25519@openssh.com" : "ssh-ed25519")
    }

    private func string(_ bytes: some Collection<UInt8>) -> Data {
        number(UInt32(bytes.count)) + Data(bytes)
    }

    private func number(_ number: UInt32) -> Data {
        withUnsafeBytes(of: number.bigEndian) { Data($0) }
    }

    /// The public key in the form of SSH.
    var publicKey: Data {
        string(keyType.utf8) + string(key.publicKey.rawRepresentation)
            + (isHardware ? string("ssh:".utf8) : Data())
    }

    /// The public key as a line of a list has it.
    var publicKeyText: String { "\(keyType) \(publicKey.base64EncodedString())" }

    var fingerprint: String {
        let digest = Data(SHA256.hash(data: publicKey)).base64EncodedString()
        return "SHA256:" + digest.replacing("=", with: "")
    }

    /// The bytes of a signature.
    func blob(signing manifest: Data) throws -> Data {
        let digest =
            hash == "sha256" ? Data(SHA256.hash(data: manifest)) : Data(SHA512.hash(data: manifest))
        let fields = string(namespace.utf8) + string(reserved) + string(hash.utf8)
        var signed = Data("SSHSIG".utf8) + fields + string(digest)
        let state = Data([1, 0, 0, 0, 7])
        if isHardware {
            signed =
                Data(SHA256.hash(data: Data("ssh:".utf8))) + state
                + Data(SHA256.hash(data: signed))
        }
        let signature =
            try string(keyType.utf8) + string(key.signature(for: signed))
            + (isHardware ? state : Data())
        return Data("SSHSIG".utf8) + number(version) + string(publicKey) + fields
            + string(signature)
    }

    static func armored(_ blob: Data) -> Data {
        let lines = blob.base64EncodedString(options: [
            .lineLength76Characters, .endLineWithLineFeed,
        ])
        return Data(
            "-----BEGIN SSH SIGNATURE-----\n\(lines)\n-----END SSH SIGNATURE-----\n".utf8)
    }

    func signature(of manifest: Data) throws -> Data {
        Self.armored(try blob(signing: manifest))
    }
}

extension HandmadeArchive {
    /// A document with a folder, as far as verification looks at it.
    static let document = HandmadeArchive([
        Entry(path: "StoreContent", kind: .folder),
        Entry(path: DocumentPackageLayout.storePath, data: ArchiveTests.data(3000)),
        Entry(path: "AdditionalContent", kind: .folder),
        Entry(path: "AdditionalContent/1", kind: .folder),
        Entry(path: "AdditionalContent/1/a", data: Data([1, 2, 3])),
    ])

    /// The bytes of the manifest.
    var manifest: Data { entries.first { $0.path == ArchiveManifest.path }?.data ?? Data() }

    /// Adds a manifest and its signature.
    func signed(by signer: TestSigner) throws -> HandmadeArchive {
        var copy = try withManifest()
        let signature = try signer.signature(of: copy.manifest)
        copy.entries.append(.init(path: ArchiveSignature.path, data: signature))
        return copy
    }
}

/// OpenSSH's program.
enum SSHKeygen {
    static let isInstalled = (try? run("command -v ssh-keygen").status) == 0

    /// Runs a command of the shell.
    static func run(_ command: String) throws -> ChildProcess.Outcome {
        try ChildProcess.runAndWait("/bin/bash", ["-c", command])
    }

    /// Makes a key without a passphrase.
    static func makeKey(_ path: String, type: String = "ed25519") throws {
        let outcome = try run("ssh-keygen -q -t \(type) -N '' -C someone -f '\(path)'")
        if outcome.status != 0 { throw CocoaError(.fileWriteUnknown) }
    }

    /// Whether the program accepts a signature.
    static func accepts(
        _ signature: Data, of message: Data, allowed: String, identity: String,
        in folder: TemporaryFolder
    ) throws -> Bool {
        try signature.write(to: URL(fileURLWithPath: folder.path("keygen.sig")))
        try message.write(to: URL(fileURLWithPath: folder.path("keygen.message")))
        try Data(allowed.utf8).write(to: URL(fileURLWithPath: folder.path("keygen.allowed")))
        defer {
            for name in ["keygen.sig", "keygen.message", "keygen.allowed"] {
                try? FileManager.default.removeItem(atPath: folder.path(name))
            }
        }
        return try run(
            "cd '\(folder.path)' && ssh-keygen -Y verify -f keygen.allowed -I '\(identity)' -n quire-archive -s keygen.sig < keygen.message"
        ).status == 0
    }
}
