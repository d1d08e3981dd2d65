import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// The recording of what threads do at once misses nothing.
struct DiskRecordingTests {
    /// strace prints a call that another thread interrupts in two parts.
    private func recording(of lines: [String], in folder: String) throws -> DiskRecording {
        let trace = folder + ".trace"
        let hexadecimal = lines.map { line in
            line.split(separator: "\"", omittingEmptySubsequences: false).enumerated().map {
                index, part in
                index % 2 == 0
                    ? String(part)
                    : "\""
                        + part.utf8.map { "\\x" + String(Int($0) + 0x100, radix: 16).dropFirst() }
                        .joined() + "\""
            }.joined()
        }
        try Data(hexadecimal.joined(separator: "\n").utf8).write(to: URL(fileURLWithPath: trace))
        var recording = try DiskRecording(of: folder)
        try recording.add(SystemCallTrace(contentsOf: trace))
        return recording
    }

    @Test func descriptorIsFreeWhenItsClosingBegins() throws {
        let folder = try ScratchFolder()
        let documents = folder.path("documents")
        try FileSystem.makeFolder(documents)
        try FileSystem.makeFolder(documents + "/external")
        let recording = try recording(
            of: [
                "11 openat(AT_FDCWD, \"\(documents)\", O_RDONLY) = 7",
                "11 close(7 <unfinished ...>",
                "12 openat(AT_FDCWD, \"\(documents)/external\", O_RDONLY) = 7",
                "11 <... close resumed>) = 0",
                "12 openat(7, \"value\", O_WRONLY|O_CREAT, 0644) = 8",
            ], in: documents)
        #expect(recording.operations.count == 1)
    }

    @Test func useOfAClosedDescriptorIsNotPassedOver() throws {
        let folder = try ScratchFolder()
        let documents = folder.path("documents")
        try FileSystem.makeFolder(documents)
        #expect(throws: (any Error).self) {
            try recording(
                of: [
                    "11 openat(AT_FDCWD, \"\(documents)\", O_RDONLY) = 7", "11 close(7) = 0",
                    "11 mkdirat(7, \"folder\", 0755) = 0",
                ], in: documents)
        }
    }
}
