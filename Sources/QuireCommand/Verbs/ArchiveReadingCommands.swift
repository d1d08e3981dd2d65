import ArgumentParser
import Foundation
import Quire
import QuireDocuments

/// `quire extract ARCHIVE PATH`
struct ExtractCommand: AsyncParsableCommand, ResultPrinting {
    static let configuration = CommandConfiguration(
        commandName: "extract",
        abstract: "Unpacks an archive into a document package.",
        discussion: """
            An archive written by export is verified: its files must be exactly those in its \
            manifest. A folder, or a zip, tar or 7z archive from another program, must contain one \
            document, at any depth; files that are not part of the document are omitted. The archive \
            of a protected document opens with the document's keys. Without a key, only its keybag \
            and the headers of its files are checked.

            EXAMPLES:
              quire extract Library.zip Library.quire
              curl -s https://example.org/Library.zip | quire extract - Library.quire
            """)

    @Argument(
        help: ArgumentHelp("An archive or a folder, or - for standard input.", valueName: "ARCHIVE")
    )
    var archive: String

    @Argument(help: ArgumentHelp("The package to create.", valueName: "PATH"))
    var path: String

    @Flag(help: "Extract a document that was exported with --keep-damage.")
    var keepDamage = false

    @Flag(help: "Print JSON, as info does.")
    var json = false

    @OptionGroup(title: HelpText.keys) var unlock: UnlockOptions

    /// The name of the archive in sentences.
    private var source: String { archive == "-" ? "standard input" : archive }

    @MainActor
    func run() async throws {
        let unlocking = { domain in try unlock.unlock(domain, of: source, asks: false) }
        let extracted = try ProgressBar.showing("Extracting \(source)", of: .bytes) { progress in
            archive == "-"
                ? try DocumentPackage.extract(
                    STDIN_FILENO, named: source, to: path, keepingDamage: keepDamage,
                    progress: progress, unlocking: unlocking)
                : try DocumentPackage.extract(
                    archive, to: path, keepingDamage: keepDamage, progress: progress,
                    unlocking: unlocking)
        }
        defer { reportUnverified(extracted) }
        // It is extracted, whatever comes of looking at it.
        do {
            if extracted.isStoreChecked {
                try await report()
            } else {
                try reportLocked()
            }
        } catch is OutputClosed {} catch {
            Output.report(
                "\(Failure(error, of: Self.self).sentence) \(source) was extracted to \(path).")
        }
    }

    private func reportUnverified(_ extracted: ExtractedArchive) {
        if extracted.isVerified { return }
        Output.report(
            "“\(source)” has no manifest, so its files could not be verified as complete and unchanged."
        )
        let omitted = extracted.omittedPaths
        if omitted.isEmpty { return }
        let named = omitted.prefix(3).map { "“\($0)”" }.joined(separator: ", ")
        let more = omitted.count > 3 ? " and \(omitted.count - 3) more" : ""
        Output.report("Omitted, because they are not part of the document: \(named)\(more).")
    }

    @MainActor
    private func report() async throws {
        let document = try await DocumentSession.open(path, modelPath: nil, access: .read)
        let info = try await DocumentInfo(of: document)
        try await document.close()
        let objects = info.entities.reduce(0) { $0 + $1.count }
        try printResult(
            levels: 2, ["Extracted \(source) to \(path): \(Count.of(objects, "object"))."]
        ) { .object(info.members) }
    }

    private func reportLocked() throws {
        let protection = try DocumentPackage.fileProtection(at: path)
        try printResult(["Extracted \(source) to \(path)."]) {
            .object([
                "path": .string(path), "kind": .string("package"),
                "protection": ProtectionListing.json(protection, isLocked: true),
            ])
        }
        Output.report(
            "“\(path)” is protected (\(protection.rawValue)) and locked: only its keybag and the headers of its files were checked. Run “quire check” with a key to check the rest."
        )
    }
}

/// `quire verify ARCHIVE`
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Checks an archive against its manifest and its signature.",
        discussion: """
            Reads the whole archive and writes nothing. Its files must be exactly those in its \
            manifest, which export writes; an archive from another program has none. Exit code 4 \
            if the archive is damaged, was changed after it was signed, or is not signed by an \
            allowed signer.

            The file of allowed signers has the OpenSSH format: a line per signer with an \
            identity, options and a public key. Without it, any valid signature is accepted, and \
            the key's fingerprint is printed. Only Ed25519 signatures can be checked; ssh-keygen \
            checks those of other keys.

            EXAMPLES:
              quire verify Library.zip
              quire verify Library.zip --allowed-signers ~/.ssh/allowed_signers
              quire verify Library.zip --allowed-signers allowed --signer ada@example.org
              curl -s https://example.org/Library.zip | quire verify -
            """)

    @Argument(help: ArgumentHelp("An archive, or - for standard input.", valueName: "ARCHIVE"))
    var archive: String

    @Option(
        help: ArgumentHelp("File of allowed signers.", valueName: "FILE"))
    var allowedSigners: String?

    @Option(
        help: ArgumentHelp(
            "Required signer; any listed signer by default.", valueName: "IDENTITY"))
    var signer: String?

    @OptionGroup var printing: JSONOption

    func validate() throws {
        if signer != nil && allowedSigners == nil {
            throw ValidationError("--signer requires --allowed-signers.")
        }
    }

    func run() async throws {
        let source = archive == "-" ? "standard input" : archive
        let verified = try ProgressBar.showing("Verifying \(source)", of: .bytes) { progress in
            archive == "-"
                ? try DocumentPackage.verify(
                    descriptor: STDIN_FILENO, named: source, allowedSigners: allowedSigners,
                    identity: signer, progress: progress)
                : try DocumentPackage.verify(
                    archive: archive, allowedSigners: allowedSigners, identity: signer,
                    progress: progress)
        }
        let files = Count.of(verified.files, "file")
        let bytes = Count.of(Int(verified.bytes), "byte")
        try printing.printResult(
            reportsChanges: false,
            ["Verified \(source): \(files), \(bytes).", description(of: verified.signer)]
        ) {
            .object([
                "path": .string(archive), "files": .integer(Int64(verified.files)),
                "bytes": .integer(verified.bytes),
                "signer": verified.signer.map { signer in
                    JSONValue.object([
                        "keyType": .string(signer.keyType),
                        "fingerprint": .string(signer.fingerprint),
                        "principals": JSONValue(signer.principals),
                    ])
                } ?? .null,
            ])
        }
    }

    private func description(of signer: ArchiveSigner?) -> String {
        guard let signer else { return "It is not signed." }
        let key = "the \(signer.keyType) key \(signer.fingerprint)"
        if let principals = signer.principals { return "Signed by \(principals), with \(key)." }
        return
            "Signed with \(key), which was not checked against allowed signers; specify --allowed-signers."
    }
}
