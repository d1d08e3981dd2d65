import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

/// What can be wrong with a document that opens.
enum DocumentDamage: String, CaseIterable, CustomTestStringConvertible {
    case indexPage, tablePage, externalBytes, externalSize, externalMissing, contentMissing
    var testDescription: String { rawValue }

    func apply(to path: String) throws {
        let layout = DocumentPackageLayout(path: path)
        func external() throws -> String {
            let name = try #require(try FileSystem.names(in: layout.externalData).first)
            return FileSystem.path(layout.externalData, name)
        }
        switch self {
        case .indexPage: try clearRoot(of: "sqlite_autoindex_QUIRE_EXTERNAL_DATA_1", layout.store)
        case .tablePage: try clearRoot(of: "ZNOTE", layout.store)
        case .externalBytes:
            try OpenFile.open(external(), for: .updating).write([1, 2, 3], at: 1000)
        case .externalSize: try OpenFile.open(external(), for: .updating).setSize(1000)
        case .externalMissing: try FileSystem.removeFile(external())
        case .contentMissing: try FileSystem.removeTree(layout.additionalContent(generation: 1))
        }
    }

    private func clearRoot(of name: String, _ store: String) throws {
        let connection = try SQLiteConnection(path: store, mode: .writing)
        let page = try #require(
            try connection.integer(
                "SELECT rootpage FROM sqlite_schema WHERE name = '\(name)'"))
        let size = try #require(try connection.integer("PRAGMA page_size"))
        connection.close()
        let file = try OpenFile.open(store, for: .updating)
        try file.write([UInt8](repeating: 0, count: Int(size)), at: (page - 1) * size)
    }
}

/// The ways to copy a document.
enum DocumentCopying: String, CaseIterable, CustomTestStringConvertible {
    case writeCopy, duplicate, zip, tar, saveTo, saveAs, version
    var testDescription: String { rawValue }

    /// Copies the document “Doc.quire” in a folder.
    ///
    /// - Returns: The copy as a document.
    @MainActor
    func copy(_ path: String, in folder: TemporaryFolder, keepingDamage: Bool) async throws
        -> String
    {
        func reading<Result>(_ body: (DocumentPackage) throws -> Result) throws -> Result {
            let package = try DocumentPackage.open(at: path, readOnly: self != .version)
            defer { try? package.close() }
            return try body(package)
        }
        let copy = folder.path("Copy.quire")
        switch self {
        case .writeCopy: try reading { try $0.writeCopy(to: copy, keepingDamage: keepingDamage) }
        case .duplicate: return try reading { try $0.duplicate(keepingDamage: keepingDamage) }
        case .zip, .tar:
            let archive = folder.path(self == .zip ? "a.zip" : "a.tar.zst")
            _ = try reading { try $0.export(to: archive, keepingDamage: keepingDamage) }
            try DocumentPackage.extract(archive, to: copy, keepingDamage: keepingDamage)
        case .saveTo, .saveAs:
            let document = ManagedDocument(path: path)
            try await document.open(readOnly: true)
            do {
                if self == .saveTo {
                    try await document.writeCopy(
                        to: URL(fileURLWithPath: copy), keepingDamage: keepingDamage)
                } else {
                    try await document.save(
                        as: URL(fileURLWithPath: copy), keepingDamage: keepingDamage)
                }
            } catch {
                try await document.close()
                throw error
            }
            try await document.close()
        case .version:
            return try reading { package in
                let version = try package.keepVersion(keepingDamage: keepingDamage)
                let checkout = try package.checkOut(version.id)
                defer { checkout.close() }
                try FileSystem.copyTree(checkout.path, to: copy)
                return copy
            }
        }
        return copy
    }
}

@MainActor @Suite(.inClear) struct DamagedCopyTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Doc.quire")
    }

    private func make() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("large", code: "a", picture: Data(repeating: 9, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "a")
        try await document.close()
    }

    private func errors(of path: String) throws -> [String] {
        let package = try DocumentPackage.open(at: path, readOnly: true)
        defer { try? package.close() }
        do {
            return try package.check().filter { $0.severity == .error }.map(\.message)
        } catch let error as QuireError where error.code == .invalidFormat {
            return [error.message]
        }
    }

    @Test(arguments: DocumentDamage.allCases, DocumentCopying.allCases)
    func whatIsDamagedIsNotCopiedUnlessAskedFor(
        _ damage: DocumentDamage, _ copying: DocumentCopying
    ) async throws {
        try await make()
        try damage.apply(to: path)
        #expect(try !errors(of: path).isEmpty)
        let error = try #require(
            await failure { _ = try await copying.copy(path, in: folder, keepingDamage: false) })
        #expect(error.code == .invalidFormat)
        #expect(error.message.contains("“\(path)” is damaged"), "\(error.message)")
        #expect(error.message.contains("quire recover"))
        #expect(!error.message.contains(".quire-building"), "\(error.message)")
        #expect(try FileSystem.names(in: folder.path) == ["Doc.quire"])
        #expect(try DocumentPackage.versions(at: path).isEmpty)

        // A page that reading needs: what opens a copy for writing cannot go on with it.
        if copying == .saveAs && damage == .tablePage { return }
        // A version is of the files that there are.
        if copying == .version && damage == .contentMissing { return }
        let copy = try await copying.copy(path, in: folder, keepingDamage: true)
        if copying == .version && damage == .externalMissing { return }
        #expect(try !errors(of: copy).isEmpty)
    }

    @Test(arguments: [DocumentCopying.writeCopy, .zip, .version])
    func ofManyFindingsTheFirstIsToldAndHowManyThereAre(_ copying: DocumentCopying) async throws {
        try await make()
        for damage in [DocumentDamage.indexPage, .tablePage] { try damage.apply(to: path) }
        let error = try #require(
            await failure { _ = try await copying.copy(path, in: folder, keepingDamage: false) })
        #expect(
            error.message.contains(#/the database: .* \(and [1-9] more\)\./#), "\(error.message)")
        #expect(!error.message.contains("***"), "\(error.message)")
    }

    @Test func errorsOfWhatIsMadeNameItsDestination() async throws {
        try await make()
        try DocumentDamage.externalBytes.apply(to: path)
        let package = try DocumentPackage.open(at: path)
        let archive = folder.path("a.zip")
        try package.export(to: archive, keepingDamage: true)
        let version = try package.keepVersion(keepingDamage: true)
        try package.close()
        let copy = folder.path("Copy.quire")
        let extraction = try #require(failure { try DocumentPackage.extract(archive, to: copy) })
        #expect(
            extraction.message.contains("“\(DocumentPackageLayout(path: copy).externalData)/"),
            "\(extraction.message)")
        let checkout = try DocumentPackage.checkOut(version.id, at: path)
        defer { checkout.close() }
        let showing = try #require(
            failure {
                try checkout.reporting {
                    let package = try DocumentPackage.open(at: checkout.path, readOnly: true)
                    defer { try? package.close() }
                    try package.writeCopy(to: copy)
                }
            })
        #expect(
            showing.message.contains("“\(path) (version \(version.id))” is damaged"),
            "\(showing.message)")
        for error in [extraction, showing] {
            #expect(!error.message.contains(".quire-"), "\(error.message)")
        }
    }

    @Test(arguments: DocumentCopying.allCases)
    func whatIsSoundIsCopied(_ copying: DocumentCopying) async throws {
        try await make()
        let copy = try await copying.copy(path, in: folder, keepingDamage: false)
        #expect(try errors(of: copy).isEmpty)
    }

    @Test func aDamagedDocumentCanBeMadeWhatAVersionIs() async throws {
        try await make()
        let package = try DocumentPackage.open(at: path)
        let version = try package.keepVersion()
        try DocumentDamage.externalMissing.apply(to: path)
        let replaced = try package.replaceContent(withVersion: version.id)
        try package.close()
        replaced.removeReplacedContent()
        #expect(try replaced.check().filter { $0.severity == .error } == [])
        try replaced.close()
    }
}

/// Who may read a copy.
@MainActor @Suite struct CopyPermissionTests {
    let folder: TemporaryFolder
    let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Doc.quire")
    }

    private func permissions(ofTree path: String) throws -> [String: UInt32] {
        var found = ["": try #require(try FileSystem.information(at: path)).permissions & 0o777]
        for (name, information) in try FileSystem.contentsOfTree(path) {
            found[name] = information.permissions & 0o777
        }
        return found
    }

    private func make(folders: mode_t, files: mode_t) async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("large", code: "a", picture: Data(repeating: 9, count: 200_000))
        try document.additionalContent.write(Data([1]), at: "deep/a")
        try await document.close()
        for (name, information) in try FileSystem.contentsOfTree(path) {
            chmod(FileSystem.path(path, name), information.kind == .folder ? folders : files)
        }
        chmod(path, folders)
    }

    @Test(
        arguments: [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)] as [(mode_t, mode_t)],
        DocumentCopying.allCases.filter { ![.zip, .tar, .version].contains($0) })
    func aCopyHasThePermissionsOfItsOriginal(
        _ modes: (mode_t, mode_t), _ copying: DocumentCopying
    ) async throws {
        try await make(folders: modes.0, files: modes.1)
        let expected = try permissions(ofTree: path)
        let copy = try await copying.copy(path, in: folder, keepingDamage: false)
        #expect(try permissions(ofTree: copy) == expected)
    }

    @Test(.inClear) func aCopyOfDamageHasThePermissionsOfItsOriginal() async throws {
        try await make(folders: 0o700, files: 0o600)
        try DocumentDamage.indexPage.apply(to: path)
        let copy = try await DocumentCopying.writeCopy.copy(path, in: folder, keepingDamage: true)
        #expect(try permissions(ofTree: copy).values.allSatisfy { $0 & 0o077 == 0 })
    }

    @Test(.inClear, arguments: ["a.zip", "a.tar.zst"])
    func anArchiveOfAPrivateDocumentIsPrivate(_ name: String) async throws {
        try await make(folders: 0o700, files: 0o600)
        let package = try DocumentPackage.open(at: path, readOnly: true)
        try package.export(to: folder.path(name))
        try package.close()
        let archive = try #require(try FileSystem.information(at: folder.path(name)))
        #expect(archive.permissions & 0o777 == 0o600)
        try DocumentPackage.extract(folder.path(name), to: folder.path("Copy.quire"))
        let copy = try #require(try FileSystem.information(at: folder.path("Copy.quire")))
        #expect(copy.permissions & 0o077 == 0)
    }

    @Test func versionsAreAsPrivateAsTheDocument() async throws {
        try await make(folders: 0o755, files: 0o600)
        let package = try DocumentPackage.open(at: path)
        let version = try package.keepVersion()
        let checkout = try package.checkOut(version.id)
        let files = try permissions(ofTree: path).merging(
            permissions(ofTree: checkout.path).map { ("checkout/" + $0, $1) }
        ) { old, _ in old }
        for (name, permissions) in files
        where name.hasSuffix("persistentStore") || name.contains("Blocks/") {
            #expect(permissions == 0o600, "\(name)")
        }
        checkout.close()
        try package.close()
    }

    @Test(.inClear) func whatRepairAndRecoveryLeaveHasTheOriginalsPermissions() async throws {
        try await make(folders: 0o700, files: 0o600)
        let connection = try SQLiteConnection(
            path: DocumentPackageLayout(path: path).store, mode: .writing)
        try connection.execute("UPDATE Z_PRIMARYKEY SET Z_MAX = 0")
        connection.close()
        _ = try DocumentPackage.recover(path, to: folder.path("Recovered.quire"))
        let backup = try #require(try DocumentPackage.repair(at: path).backup)
        for copy in [backup, folder.path("Recovered.quire")] {
            let modes = try permissions(ofTree: copy)
            #expect(modes[""] == 0o700)
            #expect(modes["StoreContent/persistentStore"] == 0o600)
        }
        #expect(try permissions(ofTree: path)["StoreContent/persistentStore"] == 0o600)
    }
}
