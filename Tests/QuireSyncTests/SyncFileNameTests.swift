import Testing

@testable import QuireSync

@Suite struct SyncFileNameTests {
    private static let longest = String(repeating: "x", count: 170)

    @Test(arguments: [
        "a", "0", "container.json", "log/peer-1/00_1.seg", "a/b/c/d", "a..b", "a-", "a_",
        "0123456789-_.abcdefghijklmnopqrstuvwxyz", longest,
        "\(longest)/\(longest)/\(longest)/\(longest)",
        "x.partial.seg", "sync-conflict-1",
    ])
    func validNamesAreWhatTheyWere(path: String) throws {
        let name = try #require(SyncFileName(path))
        #expect(name.path == path)
        #expect(name.description == path)
    }

    @Test(arguments: [
        "", "/", "a/", "/a", "a//b", ".", "..", "../a", "a/../b", "a/.", "a/b/c/d/e", ".hidden",
        "-a", "_a", "a.", "a/b.", "A", "a/B", "aB", "a b", "a\\b", "a:b", "a~", "a\0", "\0",
        "a\0b", "a\n", "é", "e\u{301}", "a\u{301}", "a\u{2F}\u{301}", "ａ", "a\u{200D}",
        longest + "x", "a/\(longest)x",
    ])
    func otherNamesAreNotValid(path: String) {
        #expect(SyncFileName(path) == nil)
        #expect(SyncFileName.top.entry(path) == nil)
    }

    /// The names that sync tools give to their own files and to copies of others.
    static let toolNames = [
        ".syncthing.a.seg.tmp", "~syncthing~a.seg.tmp", ".stfolder", ".stversions",
        "a.sync-conflict-20260101-120000-ABCDEFG.seg",
        "a.sync-conflict-20260101-120000-abcdefg.seg", "a (conflicted copy 2026-01-01).seg",
        "a (Ada's conflicted copy 2026-01-01).seg", "a.seg.partial", "a.seg.1b3f.partial",
        ".nfs000000000a3f", "._a.seg", ".DS_Store", "desktop.ini ", "Thumbs.db", "a.seg~",
        ".tmp-4c3c2f9e-95f6-4d6b-9a70-0d8d1f0a6c11",
    ]

    @Test(arguments: toolNames)
    func namesOfSyncToolsAreNotValid(name: String) {
        #expect(!SyncFileName.isValidPart(name))
    }

    @Test func namesAreTakenApartAndPutTogether() throws {
        let name = try #require(SyncFileName("log/peer/a.seg"))
        #expect(name.lastPart == "a.seg")
        #expect(name.folder == SyncFileName("log/peer"))
        #expect(name.folder.folder.folder == .top)
        #expect(SyncFileName.top.folder == .top)
        #expect(SyncFileName.top.lastPart == "")
        #expect(name.folder.entry("a.seg") == name)
        #expect(SyncFileName.top.entry("log") == SyncFileName("log"))
        #expect(SyncFileName("a/b/c/d")?.entry("e") == nil)
    }
}
