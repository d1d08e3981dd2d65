import CLinux
import Foundation
import QuireTestSupport
import Testing

@testable import Quire

@Suite struct FileSystemTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test func newFileHasItsBytesAndLeavesNoSibling() throws {
        let path = folder.path("a")
        try FileSystem.writeNewFile(Data("hello".utf8), at: path)
        #expect(try FileSystem.contents(of: path) == Data("hello".utf8))
        #expect(try FileSystem.names(in: folder.path) == ["a"])
    }

    @Test func newFileReplacesNothing() throws {
        let path = folder.path("a")
        try FileSystem.writeNewFile(Data("old".utf8), at: path)
        #expect(code { try FileSystem.writeNewFile(Data("new".utf8), at: path) } == .alreadyExists)
        #expect(try FileSystem.contents(of: path) == Data("old".utf8))
        #expect(try FileSystem.names(in: folder.path) == ["a"])
    }

    @Test func emptyAndLargeFilesReadWhole() throws {
        try FileSystem.writeNewFile(Data(), at: folder.path("empty"))
        #expect(try FileSystem.contents(of: folder.path("empty")).isEmpty)
        var large = Data(count: 3_000_000)
        for index in stride(from: 0, to: large.count, by: 7) { large[index] = UInt8(index & 255) }
        try FileSystem.writeNewFile(large, at: folder.path("large"))
        #expect(try FileSystem.contents(of: folder.path("large")) == large)
        // A file whose size is not known beforehand.
        #expect(try FileSystem.contents(of: "/proc/self/status").isEmpty == false)
    }

    @Test func aCopyHasTheBytesAndHolesOfTheOriginal() throws {
        let (path, copy) = (folder.path("sparse"), folder.path("copy"))
        for (name, bytes) in [
            ("between", [(0, 1), (8 << 20, 2), (40 << 20, 3)]), ("at the start", [(8 << 20, 1)]),
            ("at the end", [(5000, 1)]), ("everywhere", []),
        ] {
            let file = try OpenFile.open(path, for: .creating)
            for (offset, byte) in bytes {
                try file.write([UInt8](repeating: UInt8(byte), count: 5000), at: Int64(offset))
            }
            try file.setSize(Int64((bytes.last?.0 ?? 0) + 5000 + (name == "between" ? 0 : 1 << 30)))
            file.close()
            try FileSystem.copyFile(path, to: copy)
            let (original, copied) = try (
                OpenFile.open(path, for: .reading), OpenFile.open(copy, for: .reading)
            )
            #expect(try copied.information().size == original.information().size, "\(name)")
            for (offset, _) in bytes {
                let start = Int64(max(offset - 100, 0))
                let expected = try original.read(5100, at: start)
                #expect(try copied.read(5100, at: start) == expected, "\(name) at \(offset)")
            }
            var status = stat()
            #expect(stat(copy, &status) == 0)
            #expect(status.st_blocks * 512 < 1 << 20, "\(name)")
            try FileSystem.removeFile(path)
            try FileSystem.removeFile(copy)
        }
    }

    @Test func missingFileIsNotFoundAndNamed() throws {
        let path = folder.path("missing")
        let error = try #require(failure { _ = try FileSystem.contents(of: path) })
        #expect(error.code == .notFound)
        #expect(error.subject.file == path)
        #expect(error.message == "“\(path)” does not exist.")
        #expect((error.underlying as? POSIXError)?.code == .ENOENT)
        #expect(try FileSystem.information(at: path) == nil)
        #expect(!FileSystem.exists(path))
    }

    @Test func readingAFolderFailsWithASentence() throws {
        let error = try #require(failure { _ = try FileSystem.contents(of: folder.path) })
        #expect(error.code == .inputOutput)
        #expect(error.message.contains("Is a directory"))
    }

    @Test(arguments: [
        (ENOSPC, QuireError.Code.outOfSpace), (EDQUOT, .outOfSpace), (EROFS, .readOnly),
        (EACCES, .readOnly), (EPERM, .readOnly), (EEXIST, .alreadyExists), (ENOENT, .notFound),
        (EIO, .inputOutput),
    ])
    func errorNumbersBecomeCodes(number: Int32, code: QuireError.Code) {
        let error = FileSystem.failure("write", "/somewhere", errno: number)
        #expect(error.code == code)
        #expect(error.message.contains("“/somewhere”"))
        #expect((error.underlying as? POSIXError)?.code.rawValue == number)
    }

    @Test func fullDeviceIsOutOfSpace() throws {
        let file = try OpenFile.open("/dev/full", for: .updating)
        #expect(code { try file.write(Data("x".utf8)) } == .outOfSpace)
    }

    @Test func foldersAreMadeWithIntermediatesOnceOnly() throws {
        let path = folder.path("a/b/c")
        #expect(code { try FileSystem.makeFolder(path) } == .notFound)
        try FileSystem.makeFolder(path, withIntermediates: true)
        try FileSystem.makeFolder(path, withIntermediates: true)
        #expect(code { try FileSystem.makeFolder(path) } == .alreadyExists)
        // Where nobody can make one, though the folder above is there.
        #expect(throws: QuireError.self) {
            try FileSystem.makeFolder("/proc/self/none", withIntermediates: true)
        }
        try FileSystem.writeNewFile(Data(), at: folder.path("file"))
        #expect(
            code { try FileSystem.makeFolder(folder.path("file"), withIntermediates: true) }
                == .alreadyExists)
    }

    @Test func renamingWithoutReplacingRefusesFilesAndFolders() throws {
        let (first, second) = (folder.path("first"), folder.path("second"))
        try FileSystem.writeNewFile(Data("1".utf8), at: first)
        try FileSystem.writeNewFile(Data("2".utf8), at: second)
        #expect(code { try FileSystem.renameWithoutReplacing(first, to: second) } == .alreadyExists)
        try FileSystem.removeFile(second)
        try FileSystem.renameWithoutReplacing(first, to: second)
        #expect(try FileSystem.contents(of: second) == Data("1".utf8))
        try FileSystem.makeFolder(first)
        try FileSystem.makeFolder(folder.path("third"))
        #expect(
            code { try FileSystem.renameWithoutReplacing(first, to: folder.path("third")) }
                == .alreadyExists)
    }

    @Test func exchangeSwapsFullFolders() throws {
        for name in ["one", "two"] {
            try FileSystem.makeFolder(folder.path(name))
            try FileSystem.writeNewFile(Data(name.utf8), at: folder.path("\(name)/content"))
        }
        try FileSystem.exchange(folder.path("one"), folder.path("two"))
        #expect(try FileSystem.contents(of: folder.path("one/content")) == Data("two".utf8))
        #expect(try FileSystem.contents(of: folder.path("two/content")) == Data("one".utf8))
        #expect(try FileSystem.names(in: folder.path) == ["one", "two"])
    }

    @Test func removingATreeDoesNotFollowLinks() throws {
        try FileSystem.makeFolder(folder.path("outside"))
        try FileSystem.writeNewFile(Data("keep".utf8), at: folder.path("outside/keep"))
        try FileSystem.makeFolder(folder.path("tree/deep/deeper"), withIntermediates: true)
        try FileSystem.writeNewFile(Data(), at: folder.path("tree/deep/file"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("tree/deep/link"), withDestinationPath: folder.path("outside"))
        try FileSystem.removeTree(folder.path("tree"))
        #expect(try FileSystem.names(in: folder.path) == ["outside"])
        #expect(try FileSystem.names(in: folder.path("outside")) == ["keep"])
        #expect(code { try FileSystem.removeTree(folder.path("tree")) } == .notFound)
    }

    @Test(arguments: [FileSystem.CopyMethod.copying, .linking])
    func copiedTreeIsEqual(method: FileSystem.CopyMethod) throws {
        try FileSystem.makeFolder(folder.path("tree/deep"), withIntermediates: true)
        try FileSystem.writeNewFile(Data(count: 1_000_001), at: folder.path("tree/deep/large"))
        try FileSystem.writeNewFile(Data(), at: folder.path("tree/empty"))
        try FileSystem.copyTree(folder.path("tree"), to: folder.path("copy"), by: method)
        try FileSystem.synchronizeTree(folder.path("copy"))
        let original = try FileSystem.contentsOfTree(folder.path("tree"))
        let copy = try FileSystem.contentsOfTree(folder.path("copy"))
        #expect(copy.map(\.path) == ["deep", "deep/large", "empty"])
        #expect(copy.map(\.path) == original.map(\.path))
        let linked = copy[1].information.isSameFile(as: original[1].information)
        #expect(linked == (method == .linking))
        #expect(
            try FileSystem.contents(of: folder.path("copy/deep/large")) == Data(count: 1_000_001))
        #expect(
            code { try FileSystem.copyTree(folder.path("tree"), to: folder.path("copy")) }
                == .alreadyExists)
    }

    @Test func symbolicLinksAreNotCopied() throws {
        try FileSystem.makeFolder(folder.path("tree"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("tree/link"), withDestinationPath: "/etc/passwd")
        #expect(
            code { try FileSystem.copyTree(folder.path("tree"), to: folder.path("copy")) }
                == .unsupported)
    }

    @Test func lockExcludesOtherOpensOfThisProcessUntilClosed() throws {
        let path = folder.path("lock")
        let first = try OpenFile.open(path, for: .updatingOrCreating)
        let second = try OpenFile.open(path, for: .updatingOrCreating)
        #expect(try first.lockExclusively())
        #expect(try second.lockExclusively() == false)
        #expect(try second.isLockedByAnother())
        // Closing another descriptor of the file must not drop the lock.
        _ = try FileSystem.contents(of: path)
        #expect(try second.lockExclusively() == false)
        first.close()
        #expect(try second.lockExclusively())
    }

    @Test func openingBeneathAFolderCannotLeaveIt() throws {
        try FileSystem.makeFolder(folder.path("root/inner"), withIntermediates: true)
        try FileSystem.writeNewFile(Data("x".utf8), at: folder.path("secret"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("root/link"), withDestinationPath: folder.path)
        let root = folder.path("root")
        for path in [
            root + "/../secret", root + "/link/secret", folder.path("secret"),
            root + "/inner/../../secret", root + "//inner", root + "/./inner/x",
        ] {
            #expect(
                failure { _ = try OpenFile.open(path, beneath: root, for: .reading) }?.code
                    == .invalidFormat)
            #expect(failure { try FileSystem.removeTree(path, beneath: root) } != nil)
            #expect(
                failure { try AtomicFileReplace.replace(path, beneath: root, with: Data()) } != nil)
        }
        #expect(try FileSystem.contents(of: folder.path("secret")) == Data("x".utf8))
        let file = try OpenFile.open(root + "/inner/new", beneath: root, for: .creating)
        try file.write(Data("y".utf8))
        #expect(try FileSystem.contents(of: folder.path("root/inner/new")) == Data("y".utf8))
    }

    @Test func replacingKeepsOwnerGroupPermissionsAndExtendedAttributes() throws {
        let path = folder.path("file")
        try FileSystem.writeNewFile(Data("old".utf8), at: path)
        #expect(chmod(path, 0o640) == 0)
        let hasAttributes = setxattr(path, "user.note", "mine", 4, 0) == 0
        // Only the superuser may give files away.
        let isSuperuser = geteuid() == 0
        if isSuperuser { #expect(chown(path, 1234, 2345) == 0) }
        try AtomicFileReplace.replace(path, with: Data("new".utf8))
        #expect(try FileSystem.contents(of: path) == Data("new".utf8))
        let information = try #require(try FileSystem.information(at: path))
        #expect(information.permissions & 0o777 == 0o640)
        if isSuperuser { #expect(information.user == 1234 && information.group == 2345) }
        if hasAttributes {
            var value = [UInt8](repeating: 0, count: 8)
            #expect(getxattr(path, "user.note", &value, 8) == 4)
            #expect(value.prefix(4).elementsEqual("mine".utf8))
        }
    }

    @Test func replacingAFileThatCannotBeReadKeepsItsPermissions() throws {
        let path = folder.path("file")
        try FileSystem.writeNewFile(Data("old".utf8), at: path)
        #expect(chmod(path, 0o200) == 0)
        try AtomicFileReplace.replace(path, with: Data("new".utf8))
        #expect(try FileSystem.information(at: path)?.permissions == 0o200)
    }

    @Test func linksAtTheEndAreNotFollowedBeneathARoot() throws {
        let root = folder.path("root")
        let link = root + "/link"
        try FileSystem.makeFolder(root)
        try FileSystem.writeNewFile(Data("x".utf8), at: folder.path("victim"))
        try FileSystem.makeSymbolicLink(link, to: folder.path("victim"))
        for purpose in [OpenFile.Purpose.reading, .updating, .updatingOrCreating, .folder] {
            let error = failure { _ = try OpenFile.open(link, beneath: root, for: purpose) }
            #expect(error?.code == .invalidFormat && error?.subject.file == link)
            #expect(error?.message.contains("a symbolic link") == true)
        }
        #expect(
            failure { try AtomicFileReplace.replace(link, beneath: root, with: Data()) }?.code
                == .invalidFormat)
        #expect(
            failure {
                try FileSystem.linkOrCopy(link, beneath: root, to: root + "/b", within: root)
            }?.code == .invalidFormat)
        #expect(
            failure { try FileSystem.copyFile(link, beneath: root, to: root + "/b") }?.code
                == .invalidFormat)
        #expect(failure { _ = try FileSystem.names(in: link, beneath: root) } != nil)
        #expect(try FileSystem.information(at: link, beneath: root)?.kind == .symbolicLink)
        try FileSystem.removeFile(link, beneath: root)
        #expect(try FileSystem.names(in: root) == [])
        #expect(try FileSystem.contents(of: folder.path("victim")) == Data("x".utf8))
    }

    @Test func aFileIsReadUpToItsLimit() throws {
        let path = folder.path("file")
        try FileSystem.writeNewFile(Data(count: 100), at: path)
        #expect(try FileSystem.contents(of: path, limit: 100).count == 100)
        #expect(
            failure { _ = try FileSystem.contents(of: path, limit: 99) }?.code == .invalidFormat)
        let huge = try OpenFile.open(folder.path("huge"), for: .creating)
        try huge.setSize(1 << 42)
        #expect(
            failure { _ = try FileSystem.contents(of: folder.path("huge"), limit: 1 << 20) }?.code
                == .invalidFormat)
    }

    @Test func everythingWorksBeneathARoot() throws {
        let root = folder.path("root")
        try FileSystem.makeFolder(root)
        try FileSystem.makeFolder(root + "/a/b", beneath: root, withIntermediates: true)
        try FileSystem.makeFolderDurably(root + "/c/d", beneath: root)
        try FileSystem.makeFolderDurably(root, beneath: root)
        try FileSystem.writeNewFile(Data("1".utf8), at: root + "/a/b/x", beneath: root)
        try AtomicFileReplace.replace(root + "/a/b/x", beneath: root, with: Data("2".utf8))
        try FileSystem.link(root + "/a/b/x", to: root + "/c/y", beneath: root)
        try FileSystem.rename(root + "/c/y", to: root + "/c/d/y", beneath: root)
        #expect(
            failure {
                try FileSystem.renameWithoutReplacing(
                    root + "/c/d/y", to: root + "/a/b/x", beneath: root)
            }?.code == .alreadyExists)
        try FileSystem.copyTree(root + "/c", beneath: root, to: folder.path("copy"))
        #expect(try FileSystem.contents(of: folder.path("copy/d/y")) == Data("2".utf8))
        #expect(
            try FileSystem.contentsOfTree(root, beneath: root).map(\.path)
                == ["a", "a/b", "a/b/x", "c", "c/d", "c/d/y"])
        try FileSystem.synchronizeTree(root + "/a", beneath: root)
        try FileSystem.synchronizeFolders(ofTree: root, beneath: root)
        try FileSystem.synchronizeFolder(containing: root + "/a", beneath: root)
        try FileSystem.removeTree(root + "/a", beneath: root)
        #expect(try FileSystem.removeFileIfPresent(root + "/c/d/y", beneath: root))
        #expect(try !FileSystem.removeFileIfPresent(root + "/c/d/y", beneath: root))
        #expect(try !FileSystem.removeFileIfPresent(root + "/no/y", beneath: root))
        #expect(try FileSystem.information(at: root + "/no/y", beneath: root) == nil)
        #expect(!FileSystem.exists(root + "/a", beneath: root))
        #expect(FileSystem.exists(root, beneath: root))
    }

    @Test func temporaryNamesFitAndStayInTheFolder() throws {
        let long = folder.path(String(repeating: "é", count: 127))
        let sibling = FileSystem.temporarySibling(of: long, for: "new")
        #expect(FileSystem.name(of: sibling).utf8.count <= 255)
        #expect(FileSystem.folder(of: sibling) == folder.path)
        #expect(FileSystem.isTemporaryName(FileSystem.name(of: sibling)))
        try FileSystem.writeNewFile(Data(), at: long)
    }

    @Test func pathsSplitIntoFolderAndName() {
        #expect(FileSystem.folder(of: "/a/b/") == "/a")
        #expect(FileSystem.name(of: "/a/b/") == "b")
        #expect(FileSystem.folder(of: "/a") == "/")
        #expect(FileSystem.folder(of: "a") == ".")
        #expect(FileSystem.name(of: "a") == "a")
        #expect(FileSystem.folder(of: "a//b") == "a")
        #expect(FileSystem.path("/", "a") == "/a")
        #expect(FileSystem.absolute("a").hasSuffix("/a"))
    }

    @Test func localFileSystemIsNotOnNetwork() throws {
        #expect(try FileSystem.isOnNetwork("/dev/shm") == false)
        #expect(try FileSystem.isOnNetwork("/dev/shm/missing") == false)
    }
}

@Suite struct AtomicFileReplaceTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test func replacesContentAndKeepsPermissions() throws {
        let path = folder.path("a")
        try AtomicFileReplace.replace(path, with: Data("one".utf8))
        try OpenFile.open(path, for: .updating).setPermissions(0o600)
        try AtomicFileReplace.replace(path, with: Data("two".utf8))
        #expect(try FileSystem.contents(of: path) == Data("two".utf8))
        #expect(try FileSystem.information(at: path)?.permissions == 0o600)
        #expect(try FileSystem.names(in: folder.path) == ["a"])
    }

    @Test func linkStaysAndItsTargetIsReplaced() throws {
        try FileSystem.writeNewFile(Data("old".utf8), at: folder.path("target"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("link"), withDestinationPath: "target")
        try AtomicFileReplace.replace(folder.path("link"), with: Data("new".utf8))
        #expect(try FileSystem.contents(of: folder.path("target")) == Data("new".utf8))
        #expect(
            try FileSystem.informationWithoutFollowing(at: folder.path("link"))?.kind
                == .symbolicLink)
    }

    @Test func missingFolderIsNamedAndNothingIsLeft() throws {
        let path = folder.path("missing/a")
        let error = try #require(failure { try AtomicFileReplace.replace(path, with: Data()) })
        #expect(error.code == .notFound)
        #expect(error.message == "“\(folder.path("missing"))” does not exist.")
        try FileSystem.makeFolder(folder.path("b"))
        #expect(failure { try AtomicFileReplace.replace(folder.path("b"), with: Data()) } != nil)
        #expect(try FileSystem.names(in: folder.path) == ["b"])
    }
}

private func failure(_ body: () throws -> Void) -> QuireError? {
    do {
        try body()
        return nil
    } catch {
        return error as? QuireError
    }
}

private func code(_ body: () throws -> Void) -> QuireError.Code? { failure(body)?.code }
