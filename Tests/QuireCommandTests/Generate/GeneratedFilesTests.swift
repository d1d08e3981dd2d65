import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireCommand

/// Files are written all or none.
@Suite struct GeneratedFilesTests {
    private func text(_ path: String) -> String? {
        try? String(contentsOfFile: path, encoding: .utf8)
    }

    @Test func failureHalfWayPutsFilesBack() throws {
        let folder = try TemporaryFolder()
        let before = GeneratedFiles.line(origin: "Before", rest: "")
        try Data(before.utf8).write(to: URL(fileURLWithPath: folder.path("B.swift")))
        // What leads nowhere looks free, and cannot be written.
        try FileManager.default.createSymbolicLink(
            atPath: folder.path("C.swift"), withDestinationPath: folder.path("none/C.swift"))
        var files = GeneratedFiles(in: folder.path)
        for name in ["A.swift", "B.swift", "C.swift"] { files.add(name, "// New") }
        #expect(throws: QuireError.self) { try files.write(force: false) }
        #expect(text(folder.path("A.swift")) == nil)
        #expect(text(folder.path("B.swift")) == before)
    }

    @Test func fileThatWouldNotChangeIsNotTouched() throws {
        let folder = try TemporaryFolder()
        var files = GeneratedFiles(in: folder.path("Deep/Classes"))
        files.add("A.swift", GeneratedFiles.mark + "\n")
        #expect(try files.write(force: false).map(\.status) == [.made])
        let before = try FileManager.default.attributesOfItem(
            atPath: folder.path("Deep/Classes/A.swift"))
        #expect(try files.write(force: false).map(\.status) == [.unchanged])
        let after = try FileManager.default.attributesOfItem(
            atPath: folder.path("Deep/Classes/A.swift"))
        #expect(
            before[.systemFileNumber] as? NSNumber == after[.systemFileNumber] as? NSNumber)
    }

    @Test func whatSomebodyChangedStaysUnlessForced() throws {
        let folder = try TemporaryFolder()
        func files(_ rest: String) -> GeneratedFiles {
            var files = GeneratedFiles(in: folder.path)
            files.add("A.swift", GeneratedFiles.line(origin: "[0] X", rest: rest) + "\n" + rest)
            return files
        }
        func change(_ change: (String) -> String) throws {
            let path = folder.path("A.swift")
            try Data(change(try #require(text(path))).utf8).write(to: URL(fileURLWithPath: path))
        }
        #expect(try files("class A { }\n").write(force: false).map(\.status) == [.made])
        // As a formatter would.
        try change { $0.replacing("{ }", with: "{\n}") }
        #expect(try files("class A { var b }\n").write(force: false).map(\.status) == [.changed])
        try change { $0.replacing("var b", with: "var b, c") }
        #expect {
            try files("class A { var d }\n").write(force: false)
        } throws: {
            ($0 as? QuireError)?.code == .alreadyExists
                && "\($0)".contains("was changed since it was generated")
        }
        #expect(try #require(text(folder.path("A.swift"))).contains("var b, c"))
        #expect(try files("class A { var d }\n").write(force: true).map(\.status) == [.changed])
    }

    @Test func folderThatCannotBeMadeIsAnError() throws {
        var files = GeneratedFiles(in: "/proc/self/none/Classes")
        files.add("A.swift", "")
        #expect(throws: QuireError.self) { try files.write(force: false) }
    }

    @Test func whatSomebodyWroteStaysUnlessForced() throws {
        let folder = try TemporaryFolder()
        try Data("// Mine".utf8).write(to: URL(fileURLWithPath: folder.path("B.swift")))
        var files = GeneratedFiles(in: folder.path)
        for name in ["A.swift", "B.swift"] { files.add(name, GeneratedFiles.mark) }
        #expect { try files.write(force: false) } throws: {
            ($0 as? QuireError)?.code == .alreadyExists
        }
        #expect(text(folder.path("A.swift")) == nil && text(folder.path("B.swift")) == "// Mine")
        #expect(try files.write(force: true).map(\.status) == [.made, .changed])
    }
}
