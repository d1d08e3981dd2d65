public import ArgumentParser
import Foundation
import Quire
public import QuireDocuments
import QuireSQLite

/// `quire export PATH FILE`
struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Packs a document into one file.",
        discussion: """
            The extension of the archive determines its format: .zip, .quirez (a document in one \
            file), .tar, .tar.gz, .tar.xz or .tar.zst. Any archive program unpacks them to a usable \
            document. Exporting an unchanged document again creates an identical archive, unless it is \
            protected. A damaged document is not exported; use recover first. A synchronized \
            document is exported only if all of its large values have arrived.

            --sign adds a signature, which verify checks. It is created by ssh-keygen, which may ask \
            for the key's passphrase.

            --as writes the objects in another form instead, also those of a bare store or of an \
            archive: plain is a SQLite database with a table per entity; csv and jsonl are folders \
            with a file per entity and a datapackage.json; html is one self-contained page for a \
            browser.

            For a protected document, specify the protection of the archive. With \
            --keep-protection it is encrypted, and opens with the same keys. With \
            --remove-protection anyone who can read the archive can read its content.

            EXAMPLES:
              quire export Library.quire Library.zip
              quire export Library.quire Library.tar.zst --level 19
              quire export Library.quire - | ssh host 'cat > Library.zip'
              quire export Diary.quire Diary.zip --keep-protection
              quire export Library.quire Library.zip --sign ~/.ssh/id_ed25519
              quire export Library.quire Library.html --as html
              quire export Library.quire library.sqlite --as plain
            """)

    /// A form other than an archive.
    enum Form: String, ExpressibleByArgument, CaseIterable {
        case plain, csv, jsonl, html
    }

    @Argument(
        help: ArgumentHelp(
            "A document package; with --as also a store or an archive.", valueName: "PATH"))
    var path: String

    @Argument(
        help: ArgumentHelp(
            "The archive to create, or - for standard output; with --as the file or folder.",
            valueName: "FILE"))
    var archive: String

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp(
            "The form, instead of an archive: plain (SQLite), csv, jsonl or html.",
            valueName: "FORM"))
    var form: Form?

    @Option(
        help: ArgumentHelp(
            "The model of a store that does not contain its own; only with --as.",
            valueName: "M.xcdatamodeld"))
    var model: String?

    @Option(
        help: ArgumentHelp(
            "The format, regardless of the extension: zip, quirez, tar, tar.gz, tar.xz or tar.zst.",
            valueName: "FORMAT"))
    var format: ArchiveFormat?

    @Option(
        help: ArgumentHelp(
            "The level of compression: 0 to 9, for tar.zst 1 to 19.", valueName: "N"))
    var level: Int?

    @Option(
        help: ArgumentHelp("The number of threads; one per processor by default.", valueName: "N"))
    var threads: Int?

    @Option(
        help: ArgumentHelp(
            "Sign the archive with an OpenSSH private key, or with a public key whose private key is in an SSH agent.",
            valueName: "KEY"))
    var sign: String?

    @Flag(help: "Replace an existing archive.")
    var replace = false

    @Flag(help: "Include the versions of the document.")
    var withVersions = false

    @Flag(help: "Omit the history of changes.")
    var withoutHistory = false

    @Flag(help: "Export a document even if it is damaged or incomplete.")
    var keepDamage = false

    @Flag(
        help: "Keep the files of a protected document encrypted; the archive contains its keybag.")
    var keepProtection = false

    @Flag(help: "Write an unencrypted archive of a protected document.")
    var removeProtection = false

    @OptionGroup var opening: OpeningOptions

    func validate() throws {
        if keepProtection && removeProtection {
            throw ValidationError("Specify --keep-protection or --remove-protection, not both.")
        }
        if archive == "-", replace || opening.json || form != nil {
            throw ValidationError("--replace, --json and --as cannot be used with standard output.")
        }
        let isArchiveOption =
            format != nil || level != nil || threads != nil || withVersions || withoutHistory
            || keepDamage || keepProtection || sign != nil
        if form != nil && isArchiveOption {
            throw ValidationError(
                "The options of archives, such as --format or --sign, cannot be used with --as.")
        }
        let meant = [
            "csv": "csv", "jsonl": "jsonl", "html": "html", "sqlite": "plain", "db": "plain",
        ]
        if form == nil, format == nil,
            let form = meant[archive.split(separator: ".").last.map(String.init) ?? ""]
        {
            throw ValidationError("“\(archive)” is not an archive; add --as \(form).")
        }
        if form == nil && model != nil { throw ValidationError("--model is only used with --as.") }
    }

    private var protection: ArchiveProtection? {
        keepProtection ? .keep : removeProtection ? .remove : nil
    }

    @MainActor
    func run() async throws {
        if archive == "-", isatty(STDOUT_FILENO) == 1 {
            throw Failure.usage(
                "An archive cannot be written to a terminal; specify a file, or pipe the output.")
        }
        if let form { return try export(as: form) }
        try DocumentPath.requirePackage(
            path, "only packages can be archived; use --as to export a store in another form")
        try opening.unlock.unlock(path)
        let isInClear = try removeProtection && DocumentPackage.fileProtection(at: path) != .none
        let package = try DocumentPackage.open(at: path, readOnly: true)
        let manifest: ArchiveManifest
        do {
            manifest = try ProgressBar.showing("Exporting \(path)", of: .bytes) {
                try export(package, $0)
            }
        } catch var error as QuireError {
            try? package.close()
            if error.code == .protectionUnavailable {
                error.message += " Add --keep-protection or --remove-protection."
            }
            throw error
        }
        package.closeSaved()
        defer {
            if isInClear {
                Output.report(
                    "“\(archive)” is not encrypted: anyone who can read it can read its content.")
            }
        }
        if archive == "-" { return }
        let files = manifest.entries.count { !$0.path.hasSuffix("/") }
        let signature = sign == nil ? "" : ", signed"
        try opening.printResult(
            levels: 0, ["Exported \(path) to \(archive): \(Count.of(files, "file"))\(signature)."]
        ) {
            .object([
                "path": .string(archive),
                "bytes": .integer(try FileSystem.information(at: archive)?.size ?? 0),
                "files": .integer(Int64(files)),
            ])
        }
    }

    private func export(
        _ package: DocumentPackage, _ progress: Progress
    ) throws -> ArchiveManifest {
        let options = ArchiveOptions(
            format: format, level: level, threads: threads, includesVersions: withVersions,
            includesHistory: !withoutHistory, signingKey: sign)
        if archive == "-" {
            return try package.export(
                to: STDOUT_FILENO, keepingDamage: keepDamage, protection: protection,
                options: options, progress: progress)
        }
        return try package.export(
            to: archive, replacing: replace, keepingDamage: keepDamage, protection: protection,
            options: options, progress: progress)
    }

    // MARK: - Other forms

    private func export(as form: Form) throws {
        let model = try model.map(ModelSource.model)
        try opening.unlock.unlock(path)
        do {
            try ProgressBar.showing("Exporting \(path)", of: .objects) { progress in
                switch try DocumentPath.kind(of: path) {
                case .package:
                    let package = try DocumentPackage.open(at: path, model: model, readOnly: true)
                    defer { package.closeSaved() }
                    try export(package, as: form, progress)
                case .archive:
                    let package = try opening.unlock.open(archive: path, model: model)
                    defer { package.closeSaved() }
                    do { try export(package, as: form, progress) } catch {
                        throw package.naming(path, in: error)
                    }
                case .store:
                    let store = try StoreFile(at: path).open(model: model, isReadOnly: true)
                    defer { store.closeSaved() }
                    if let note = DocumentSession.modelNote(of: store, at: path) {
                        Output.report(note)
                    }
                    try export(store, as: form, progress)
                }
            }
        } catch var error as QuireError where error.code == .protectionUnavailable {
            error.message += " Add --remove-protection."
            throw error
        }
        try opening.printResult(levels: 0, ["Exported \(path) to \(archive)."]) {
            .object(["path": .string(archive), "form": .string(form.rawValue)])
        }
    }

    private func export(
        _ package: DocumentPackage, as form: Form, _ progress: Progress
    ) throws {
        switch form {
        case .plain:
            try package.exportDatabase(
                to: archive, replacing: replace, removingProtection: removeProtection,
                progress: progress)
        case .csv, .jsonl:
            try package.exportTables(
                to: archive, format: form == .csv ? .csv : .jsonLines, replacing: replace,
                removingProtection: removeProtection, progress: progress)
        case .html:
            try package.exportPage(
                to: archive, replacing: replace, removingProtection: removeProtection,
                progress: progress)
        }
    }

    private func export(
        _ store: any PersistentStore, as form: Form, _ progress: Progress
    ) throws {
        try DocumentPackage.checkOutside(archive)
        let protection = (store as? SQLiteStore)?.protection
        if let protection, !removeProtection {
            throw QuireError(
                .protectionUnavailable,
                "“\(path)” is protected (\(protection.fileProtection.rawValue)), and its export would not be encrypted.",
                file: path)
        }
        let permissions = try SQLiteStore.permissions(forCopyOf: path)
        switch form {
        case .plain:
            try DatabaseExport(
                store: store, destination: archive, replacesExisting: replace,
                progress: progress, permissions: permissions
            ).run()
        case .csv, .jsonl:
            try TableExport(
                store: store, destination: archive, format: form == .csv ? .csv : .jsonLines,
                replacesExisting: replace, progress: progress, permissions: permissions
            ).run()
        case .html:
            try DocumentPage(of: store, title: FileSystem.name(of: path)).write(
                to: archive, replacing: replace, permissions: permissions, progress: progress)
        }
    }
}

extension ArchiveFormat: ExpressibleByArgument {}
