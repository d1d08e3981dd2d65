import Testing

/// What others may do with what a command makes of a store that they may not read.
@Suite struct PermissionTests {
    /// A shell with stores of each type, and a document with external data, that only their user may read, although new files
    /// are for all.
    private func makeShell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Notes
            quire insert L.quire Attachment name=a post=Post/p1
            head -c 300000 /dev/urandom > picture
            quire data put L.quire Attachment/p1 data picture; rm picture
            for type in sqlite xml binary; do quire convert L.quire B.$type --to $type; done
            chmod 600 B.*; chmod 700 .B_SUPPORT L.quire
            """)
        return shell
    }

    /// What others could read of what has a name.
    private static let find = "find . -name '*New*' -prune -exec find {} -type f -perm /077 ';'"

    @Test(arguments: ["B.sqlite", "B.xml", "B.binary", "L.quire"], ["sqlite", "xml", "binary"])
    func convertedStoresHaveThePermissionsOfTheirOriginals(path: String, type: String) throws {
        let shell = try makeShell()
        _ = try shell.output("umask 022; quire convert \(path) New --to \(type)")
        #expect(try shell.output(Self.find).isEmpty)
        #expect(try shell.output("stat -c %a New") == "600\n")
        _ = try shell.output("quire check New")
    }

    @Test func recoveredStoresHaveThePermissionsOfTheirOriginals() throws {
        let shell = try makeShell()
        _ = try shell.output("umask 022; quire recover B.sqlite New")
        #expect(try shell.output(Self.find).isEmpty)
        #expect(try shell.output("stat -c %a New .New_SUPPORT") == "600\n700\n")
    }

    /// As a copy does, whatever the mask for new files is.
    @Test func storesForAllGiveStoresForAll() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            chmod 664 B.sqlite; chmod 755 .B_SUPPORT
            umask 077; quire convert B.sqlite New --to sqlite
            """)
        #expect(
            try shell.output("stat -c %a New .New_SUPPORT .New_SUPPORT/*") == "664\n755\n755\n")
    }
}
