import Testing

/// What `QUIRE_LOG` has the command print on standard error.
@Suite struct LogOutputTests {
    @Test func controlCharactersOfNamesAreEscaped() throws {
        let shell = try CommandShell()
        // There is no place for a socket, which is logged with the document's name.
        let log = try shell.output(
            #"""
            name=$'a\e[31m.quire'; quire new "$name" --template Library
            echo status | QUIRE_LOG=notice XDG_RUNTIME_DIR=/dev/null quire open "$name" 2>&1 >/dev/null
            """#)
        #expect(log.contains(#"a\u001b[31m.quire"#), "\(log)")
        #expect(!log.contains("\u{1B}"), "\(log)")
    }
}
