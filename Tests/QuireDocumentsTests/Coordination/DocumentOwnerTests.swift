import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments

@Suite struct DocumentOwnerTests {
    @Test func theOwnerIsKnownWhileThePackageIsOpen() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        let before = Date()
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let owner = try #require(try DocumentPackage.owner(at: path))
        #expect(owner.isThisProcess)
        #expect(owner.processIdentifier == getpid())
        #expect(owner.hostName == ProcessInfo.processInfo.hostName)
        let since = try #require(owner.since)
        #expect(abs(since.timeIntervalSince(before)) < 60)
        #expect(owner.bootIdentifier?.count == 36)
        #expect(owner.processStart != nil)
        try package.close()
        #expect(try DocumentPackage.owner(at: path) == nil)
        #expect(!FileSystem.exists(package.layout.lock))
    }

    @Test func readersAreNotOwners() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        try DocumentPackage.create(at: path, model: notesModel).close()
        let package = try DocumentPackage.open(at: path, readOnly: true)
        #expect(try DocumentPackage.owner(at: path) == nil)
        try package.close()
    }

    @Test func theRefusalSaysWhoHasItOpen() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let error = failure { _ = try DocumentPackage.open(at: path) }
        #expect(error?.code == .locked)
        #expect(error?.message.contains("by process \(getpid()) (") == true)
        try package.close()
    }

    @Test func aLockFileWithoutALockIsNobodys() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        try DocumentPackage.create(at: path, model: notesModel).close()
        try FileSystem.writeNewFile(Data("process 1\n".utf8), at: path + "/.lock")
        #expect(try DocumentPackage.owner(at: path) == nil)
    }

    @Test func aLockFileMaySayAnything() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("Doc.quire")
        try DocumentPackage.create(at: path, model: notesModel).close()
        var random = SeededRandom(seed: SeededRandom.baseSeed)
        var texts = ["", "process", "process 99999999999999\nsince -1\nstart x\n", "since 1e9\n"]
        for _ in 0..<50 {
            let bytes = (0..<Int.random(in: 0...9000, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            texts.append("process 7\nname " + String(decoding: bytes, as: UTF8.self))
        }
        for text in texts {
            let lock = try OpenFile.open(path + "/.lock", for: .updatingOrCreating)
            try lock.setSize(0)
            try lock.write(Data(text.utf8))
            #expect(try lock.lockExclusively())
            let owner = try #require(try DocumentPackage.owner(at: path))
            #expect(!owner.isThisProcess)
            #expect(owner.since == nil)
            let error = failure { _ = try DocumentPackage.open(at: path) }
            #expect(error?.code == .locked)
            #expect(error?.message.contains("\n") == false)
        }
    }

    @Test func textTellsTheOwner() {
        let owner = DocumentOwner(
            processIdentifier: 7, processName: "a\nb", hostName: "host",
            since: Date(timeIntervalSince1970: 5), bootIdentifier: "boot", processStart: 9)
        var read = DocumentOwner(text: owner.text)
        #expect(read.processName == "ab")
        read.processName = owner.processName
        #expect(read == owner)
    }

    @Test func whatIsNoPackageHasNoOwner() throws {
        let folder = try TemporaryFolder()
        #expect(failure { _ = try DocumentPackage.owner(at: folder.path("x")) }?.code == .notFound)
        #expect(failure { _ = try DocumentPackage.owner(at: folder.path) }?.code == .invalidFormat)
    }
}
