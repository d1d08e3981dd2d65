import Testing

/// The log that the command prints on standard error with `QUIRE_LOG` and `QUIRE_SQL_DEBUG`.
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

    @Test func statementsAreLoggedOnStandardError() throws {
        let shell = try CommandShell()
        _ = try shell.output("quire new L.quire --template Library")
        let fetch = "quire fetch L.quire Book --where 'title == \"Emma\"'"
        let plain = try shell.output(fetch)
        for level in 0...5 {
            #expect(try shell.output("QUIRE_SQL_DEBUG=\(level) \(fetch) 2>log") == plain)
            let log = try shell.output("cat log")
            let isLevel = (1...4).contains(level)
            #expect(log.contains(" FROM ZBOOK ") == isLevel, "\(log)")
            #expect(log.contains("'Emma'") == (isLevel && level > 1), "\(log)")
            #expect(log.contains(" row 1: ") == (isLevel && level > 2), "\(log)")
            #expect(log.contains(" plan: ") == (isLevel && level > 3), "\(log)")
            #expect(log.contains("is “5”, which is ignored") == (level == 5), "\(log)")
            if !isLevel {
                #expect(log.split(separator: "\n").count == (level == 5 ? 1 : 0), "\(log)")
            }
        }
        #expect(try shell.output("\(fetch) 2>&1") == plain)
    }

    @Test func noValueOfAProtectedDocumentIsLogged() throws {
        let shell = try CommandShell()
        let log = try shell.output(
            """
            export QUIRE_SQL_DEBUG=4
            quire new L.quire --template Library 2>/dev/null >&2
            quire protect L.quire --class complete --key-file k --make-key-file 2>/dev/null >&2
            quire insert L.quire Book title=CANARY --key-file k 2>&1
            quire fetch L.quire Book --where 'title == "CANARY"' --count --key-file k 2>&1
            """)
        #expect(log.contains("INSERT INTO ZBOOK"), "\(log)")
        #expect(!log.contains("CANARY"), "\(log)")
    }
}
