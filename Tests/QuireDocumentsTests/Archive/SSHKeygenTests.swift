import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite(.needs(SSHKeygen.isInstalled, or: "there is no ssh-keygen"))
struct SSHKeygenTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func export(
        to name: String, key: String, replacing: Bool = false
    ) throws -> ArchiveManifest {
        let tree = folder.path("tree")
        if !FileSystem.exists(tree) {
            try FileSystem.makeFolder(tree + "/StoreContent", withIntermediates: true)
            try FileSystem.writeNewFile(
                ArchiveTests.data(1_500_000), at: tree + "/StoreContent/persistentStore")
        }
        return try ArchiveExport(
            folder: tree, destination: folder.path(name), root: name == "a.quirez" ? "" : "N.quire",
            options: ArchiveOptions(signingKey: folder.path(key)), replacesExisting: replacing
        ).run()
    }

    @Test(arguments: ArchiveFormat.allCases.map { "a.\($0.rawValue)" })
    func bothSidesAcceptSignedExports(name: String) throws {
        try SSHKeygen.makeKey(folder.path("k"))
        let list =
            "*@example.org "
            + String(decoding: try FileSystem.contents(of: folder.path("k.pub")), as: UTF8.self)
        try FileSystem.writeNewFile(Data(list.utf8), at: folder.path("allowed"))
        let manifest = try export(to: name, key: "k").encoded()
        let verified = try DocumentPackage.verify(
            archive: folder.path(name), allowedSigners: folder.path("allowed"),
            identity: "ada@example.org")
        #expect(verified.files == 1)
        #expect(verified.signer?.principals == "*@example.org")
        let checked = try ArchiveExtraction(archive: folder.path(name), destination: "").check()
        let signature = try #require(checked.signature)
        func accepts(_ message: Data, _ identity: String) throws -> Bool {
            try SSHKeygen.accepts(
                signature, of: message, allowed: list, identity: identity, in: folder)
        }
        #expect(try accepts(manifest, "ada@example.org"))
        #expect(try !accepts(manifest, "ada@example.com"))
        #expect(try !accepts(manifest + Data(" ".utf8), "ada@example.org"))
        let first = try FileSystem.contents(of: folder.path(name))
        _ = try export(to: name, key: "k.pub", replacing: true)
        #expect(try FileSystem.contents(of: folder.path(name)) == first)
        #expect(
            try FileSystem.names(in: folder.path).sorted()
                == [name, "allowed", "k", "k.pub", "tree"].sorted())
    }

    @Test(arguments: ["rsa", "ecdsa"])
    func otherKeysSignButAreNotChecked(type: String) throws {
        try SSHKeygen.makeKey(folder.path("k"), type: type)
        let manifest = try export(to: "a.zip", key: "k").encoded()
        let error = failure { _ = try DocumentPackage.verify(archive: folder.path("a.zip")) }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("ssh-keygen -Y verify") == true)
        let checked = try ArchiveExtraction(archive: folder.path("a.zip"), destination: "").check()
        let key = String(decoding: try FileSystem.contents(of: folder.path("k.pub")), as: UTF8.self)
        #expect(
            try SSHKeygen.accepts(
                try #require(checked.signature), of: manifest, allowed: "ada \(key)",
                identity: "ada", in: folder))
    }

    @Test(arguments: [false, true], ["sha256", "sha512"])
    func opensshAcceptsWhatTheTestsSign(isHardware: Bool, hash: String) throws {
        let signer = TestSigner(isHardware: isHardware, hash: hash)
        let message = Data("message".utf8)
        #expect(
            try SSHKeygen.accepts(
                signer.signature(of: message), of: message, allowed: "ada \(signer.publicKeyText)",
                identity: "ada", in: folder))
    }

    @Test func failuresOfTheProgramLeaveNothing() throws {
        let missing = failure { _ = try export(to: "a.zip", key: "none") }
        #expect(missing?.code == .notFound)
        try FileSystem.writeNewFile(Data("no key".utf8), at: folder.path("bad"))
        let error = failure { _ = try export(to: "a.zip", key: "bad") }
        #expect(error?.code == .inputOutput)
        #expect(error?.message.contains("ssh-keygen could not sign it") == true)
        #expect(error?.message.contains("Couldn't load public key") == true)
        #expect(error?.message.contains("Signing file") == false)
        #expect(try FileSystem.names(in: folder.path).sorted() == ["bad", "tree"])
    }

    /// Lines with the key `KEY`, and whether they accept it for ada@example.org.
    static let lists: [(String, Bool)] = [
        ("ada@example.org KEY", true),
        ("ada@example.org KEY comment", true),
        ("\tada@example.org   KEY\r", true),
        ("# comment\n\nada@example.org KEY", true),
        ("#ada@example.org KEY", false),
        ("bob@example.org KEY", false),
        ("bob@example.org,ada@example.org KEY", true),
        ("*@example.org KEY", true),
        ("a?a@example.org KEY", true),
        ("a?@example.org KEY", false),
        ("*a*@*.o*g KEY", true),
        ("*@example.org,!ada@* KEY", false),
        ("!ada@*,*@example.org KEY", false),
        ("!bob@*,*@example.org KEY", true),
        ("Ada@example.org KEY", false),
        ("\"ada@example.org,bob x\" KEY", true),
        ("\"ada@example.org KEY", false),
        ("ada@example.org namespaces=\"quire-archive\" KEY", true),
        ("ada@example.org namespaces=\"file,quire-*\" KEY", true),
        ("ada@example.org namespaces=\"file\" KEY", false),
        ("ada@example.org namespaces=\"*,!quire-archive\" KEY", false),
        ("ada@example.org NameSpaces=\"quire-archive\" KEY", true),
        ("ada@example.org namespaces=quire-archive KEY", false),
        ("ada@example.org namespaces=\"quire-archive KEY", false),
        ("ada@example.org namespaces=\"a\",namespaces=\"quire-archive\" KEY", false),
        ("ada@example.org valid-after=\"20200101\" KEY", true),
        ("ada@example.org valid-after=\"20980101\" KEY", false),
        ("ada@example.org valid-before=\"20980101Z\" KEY", true),
        ("ada@example.org valid-before=\"202001012359\" KEY", false),
        ("ada@example.org valid-before=\"20980101235959Z\" KEY", true),
        ("ada@example.org valid-after=\"20200101\",valid-before=\"20980101\" KEY", true),
        ("ada@example.org valid-after=\"20980101\",valid-before=\"20200101\" KEY", false),
        ("ada@example.org valid-before=\"2098\" KEY", false),
        ("ada@example.org valid-before=\"20981301\" KEY", false),
        ("ada@example.org valid-before=\"2098010a\" KEY", false),
        ("ada@example.org valid-before=\"20980101\",namespaces=\"quire-archive\" KEY", true),
        ("ada@example.org cert-authority KEY", false),
        ("ada@example.org cert-authority,namespaces=\"quire-archive\" KEY", false),
        ("ada@example.org unknown KEY", false),
        ("ada@example.org unknown=\"x\" KEY", false),
        ("ada@example.org", false),
        ("KEY", false),
        ("", false),
        ("ada@example.org ssh-ed25519", false),
        ("ada@example.org ssh-ed25519 AAAA", false),
        ("ada@example.org ssh-ed25519 ####", false),
        ("rubbish\nada@example.org KEY", true),
        ("ada@example.org namespaces=\"file\" KEY\nada@example.org KEY", true),
        ("ada@example.org cert-authority KEY\nada@example.org KEY", true),
    ]

    @Test(arguments: lists.indices)
    func allowedSignersAreThoseOfOpenSSH(index: Int) throws {
        let signer = TestSigner()
        let text = Self.lists[index].0.replacing("KEY", with: signer.publicKeyText) + "\n"
        let expected = Self.lists[index].1
        let message = Data("message".utf8)
        let signature = try signer.signature(of: message)
        #expect(
            try SSHKeygen.accepts(
                signature, of: message, allowed: text, identity: "ada@example.org", in: folder)
                == expected)
        let error = failure {
            _ = try AllowedSigners(Data(text.utf8), path: "list").principals(
                for: try #require(SSHPublicKey(signer.publicKey)), identity: "ada@example.org",
                at: Date(), archive: "a.zip")
        }
        #expect(error?.code == (expected ? nil : .untrustedSignature), "\(error?.message ?? "")")
    }
}
