import Foundation
import Quire
import QuireSQLite
import Testing

@testable import QuireCommand

/// `quire sync`: documents of two machines, which are two folders, and a third one that is carried between them.
@MainActor @Suite struct SyncCommandTests {
    private static let model = ManagedObjectModel {
        Entity("Recipe") {
            Attribute("title", .string)
            Attribute("photo", .binary).externalStorage()
            ToMany("steps", "Step", inverse: "recipe").deleteRule(.cascade)
        }
        Entity("Step") {
            Attribute("text", .string)
            ToOne("recipe", "Recipe", inverse: "steps")
        }
    }

    /// A shell with a document that has one book, is shared in `shared`, and has a replica.
    private func makeShell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            mkdir a b; quire new a/L.quire --template Library; quire insert a/L.quire Book title=Emma
            quire sync init a/L.quire shared; quire sync join shared b/L.quire
            """)
        return shell
    }

    /// Makes a store that keeps no history, as an app without synchronization has it.
    private func makeStore(
        _ name: String, in shell: CommandShell, _ change: (ManagedObjectContext) throws -> Void
    ) throws {
        let container = try PersistentContainer(
            managedObjectModel: Self.model,
            persistentStoreDescriptions: [PersistentStoreDescription(path: shell.path(name))])
        try change(container.viewContext)
        try container.viewContext.save()
        try container.close()
    }

    /// What both machines have is the same, and is whole.
    private func expectSame(_ first: String, _ second: String, in shell: CommandShell) throws {
        #expect(
            try shell.output("quire diff \(first) \(second) --exit-code").hasSuffix(
                "No differences.\n"))
        for path in [first, second] {
            #expect(try shell.output("quire check \(path)").hasSuffix("all is well.\n"))
        }
    }

    private func normal(_ text: String) -> [String] {
        text.replacing(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/, with: "TIME")
            .replacing(/[0-9a-f]{32}/, with: "ID")
            .split(separator: "\n").map(String.init)
    }

    // MARK: - Beginning

    @Test func aDocumentIsSharedAndJoined() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "mkdir a b; quire new a/L.quire --template Library; quire insert a/L.quire Book title=Emma"
        )
        #expect(
            try shell.output("cd a; quire sync init L.quire ../shared")
                == "Created the shared document “L” in shared: 3 objects, 1 file sent.\n")
        #expect(
            try shell.output("cd b; quire sync join ../shared L.quire")
                == "Created L.quire as a replica of the shared document in shared: 3 objects; sent 0 files, received 1 file: 3 objects inserted.\n"
        )
        #expect(try shell.output("ls -A b a") == "a:\nL.quire\n\nb:\nL.quire\n")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(
            normal(try shell.output("quire sync status b/L.quire")) == [
                "Shared document ID, replica ID.", "The folder is shared.",
                "Protection: none; shared folder: not encrypted", "Nothing to send.",
                "Replica ID: 1 file merged, last TIME.",
            ])
        let container = "quire sync status $f/L.quire --json | grep container"
        #expect(
            Set(
                try shell.output("for f in a b; do \(container); done").split(separator: "\n")
            ).count == 1)
    }

    @Test func aFolderIsEncryptedWithAPassword() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            mkdir a b; quire new a/L.quire --template Library; quire insert a/L.quire Book title=Emma
            echo 'correct horse' > password; echo wrong > wrong
            """)
        #expect(
            try shell.run("quire sync init a/L.quire shared --encrypt").output
                == "quire: --encrypt requires a password; specify it with --password-fd N.\n")
        #expect(
            try shell.output(
                "quire sync init a/L.quire shared --encrypt --password-fd 3 3< password")
                == "Created the encrypted shared document “L” in shared: 3 objects, 1 file sent.\n")
        let locked = try shell.run("quire sync join shared b/L.quire")
        #expect(locked.code == 5)
        #expect(
            locked.output
                == "quire: The shared document in “shared” is encrypted; specify its password with --password-fd N.\n"
        )
        let wrong = try shell.run("quire sync join shared b/L.quire --password-fd 3 3< wrong")
        #expect(wrong.code == 5)
        #expect(
            wrong.output
                == "quire: The password does not open the shared document: it is wrong, or “container.json” is damaged.\n"
        )
        #expect(try shell.output("ls -A b").isEmpty)
        #expect(
            try shell.output(
                "quire sync join shared b/L.quire --password-fd 3 --json 3< password | grep encrypted"
            ).contains("true"))
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        // From now on without the password.
        _ = try shell.output("quire insert b/L.quire Author name=Austen; quire sync run b/L.quire")
        #expect(
            try shell.output("quire sync run a/L.quire")
                == "Sent 0 files, received 1 file: 1 object inserted.\n")
        #expect(try shell.output("quire sync join shared a/L.quire").contains("nothing to send"))
        #expect(
            try shell.output("quire sync status a/L.quire; quire info a/L.quire").components(
                separatedBy: "Protection: none; shared folder: encrypted with a password\n"
            ).count == 3)
        #expect(
            try shell.output("quire sync status a/L.quire --json | grep encrypted").contains("true")
        )
        #expect(try shell.run("grep -rqE 'Emma|Austen|Author' shared").code == 1)
    }

    @Test func aConflictIsListedAndResolvedOnOneMachine() throws {
        let shell = try makeShell()
        _ = try shell.output("quire set b/L.quire Book/p1 title=Persuasion year=1817")
        // Later, because the clock does not go back.
        _ = try shell.output("quire set a/L.quire Book/p1 title=Sanditon rating=4.5")
        #expect(
            normal(try shell.output("quire sync status a/L.quire")).contains(
                "To be sent: changes saved since the last run."))
        #expect(
            try shell.output("quire sync run b/L.quire") == "Sent 1 file, received 0 files.\n")
        #expect(
            try shell.output("quire sync run a/L.quire")
                == "Sent 1 file, received 1 file: 1 object changed; 1 conflict.\n")
        _ = try shell.output("quire sync run b/L.quire")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(
            try shell.output("quire fetch b/L.quire Book --columns title,year,rating | tail -1")
                .split(whereSeparator: \.isWhitespace).suffix(3) == ["Sanditon", "1817", "4.5"])
        for machine in ["a", "b"] {
            #expect(
                normal(try shell.output("quire sync conflicts \(machine)/L.quire")) == [
                    "number  object   property  lost        kept      set",
                    "     1  Book/p1  title     Persuasion  Sanditon  TIME",
                ])
        }
        let json = try #require(
            try JSONSerialization.jsonObject(
                with: Data(shell.output("quire sync conflicts a/L.quire --json").utf8))
                as? [[String: Any]])
        #expect(json.map { $0["lost"] as? String } == ["Persuasion"])
        #expect(json.map { $0["kept"] as? String } == ["Sanditon"])
        #expect(json.map { $0["kind"] as? String } == ["value"])

        #expect(
            try shell.output("quire sync resolve b/L.quire 1 --lost")
                == "Book/p1, title: “Persuasion” is restored; the next run sends it.\n")
        #expect(try shell.output("quire sync conflicts b/L.quire") == "No conflicts.\n")
        #expect(
            try shell.output("quire sync conflicts b/L.quire --csv")
                == "number,id,entity,property,kind,lost,kept,date\n")
        #expect(
            normal(try shell.output("quire sync status b/L.quire")).contains("To be sent: 1 file."))
        _ = try shell.output("quire sync run b/L.quire; quire sync run a/L.quire")
        #expect(try shell.output("quire sync conflicts a/L.quire --json") == "[]\n")
        #expect(
            try shell.output("quire fetch a/L.quire Book --where 'title == \"Persuasion\"' --count")
                == "1\n")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
    }

    @Test func aHiddenObjectIsListedAndShownWithAnotherValue() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            mkdir a b; quire new a/L.quire --template Notes
            quire sync init a/L.quire shared; quire sync join shared b/L.quire
            quire insert a/L.quire Tag name=x; quire insert b/L.quire Tag name=x
            for i in 1 2; do quire sync run a/L.quire; quire sync run b/L.quire; done
            """)
        #expect(
            normal(try shell.output("quire sync conflicts b/L.quire")) == [
                "number  object        property  lost    kept    set",
                "     1  Tag (hidden)  name      name=x  Tag/p3  TIME",
            ])
        #expect(
            try shell.run("quire sync resolve b/L.quire 1 --set color=red").output.contains(
                "Tag has no property “color”"))
        #expect(
            try shell.output("quire sync resolve b/L.quire 1 --set name=y")
                == "Tag (hidden), name: the object is shown; the next run sends the change.\n")
        _ = try shell.output("quire sync run b/L.quire; quire sync run a/L.quire")
        for path in ["a/L.quire", "b/L.quire"] {
            #expect(try shell.output("quire sync conflicts \(path)") == "No conflicts.\n")
            #expect(
                try shell.output("quire sync status \(path) --check | tail -1")
                    == "All objects match the merged changes.\n")
            #expect(try shell.output("quire fetch \(path) Tag --count") == "3\n")
        }
    }

    @Test func aChangeOfADeletedObjectIsListedAndLeft() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            quire delete a/L.quire Book/p1; quire set b/L.quire Book/p1 title=Persuasion
            quire sync run a/L.quire; quire sync run b/L.quire; quire sync run a/L.quire
            """)
        #expect(
            normal(try shell.output("quire sync conflicts a/L.quire")).last
                == "     1  Book (deleted)  title     Persuasion  (deleted)  TIME")
        #expect(
            try shell.output("quire sync resolve a/L.quire 1 --kept --json")
                == #"{"resolved": [1], "with": "kept"}"# + "\n")
        #expect(try shell.output("quire sync conflicts a/L.quire") == "No conflicts.\n")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(try shell.output("quire fetch b/L.quire Book --count") == "0\n")
    }

    @Test func storesAreSharedThatKeptNoHistory() throws {
        let shell = try CommandShell()
        try makeStore("R.sqlite", in: shell) {
            let soup = try $0.insertObject(entityName: "Recipe")
            soup["title"] = "Soup"
            soup["photo"] = Data(repeating: 7, count: 400_000)
            try $0.insertObject(entityName: "Step")["recipe"] = soup
        }
        _ = try shell.output("quire sync init R.sqlite shared --name Recipes")
        #expect(try shell.output("grep name shared/container.json").contains("Recipes"))
        _ = try shell.output("quire sync join shared S.sqlite; quire sync join shared S.quire")
        for path in ["S.sqlite", "S.quire"] { try expectSame("R.sqlite", path, in: shell) }
        // Saved by a program that knows nothing of synchronization, and asks for no history.
        try makeStore("R.sqlite", in: shell) {
            let recipe = try #require(try $0.fetch(FetchRequest("Recipe")).first)
            recipe["photo"] = Data(repeating: 8, count: 400_000)
            try $0.insertObject(entityName: "Step")["text"] = "Stir"
        }
        #expect(try shell.output("quire sync run R.sqlite") == "Sent 1 file, received 0 files.\n")
        for path in ["S.sqlite", "S.quire"] {
            #expect(
                try shell.output("quire sync run \(path)")
                    == "Sent 0 files, received 1 file: 1 object inserted, 1 changed.\n")
            try expectSame("R.sqlite", path, in: shell)
        }
        #expect(
            try shell.output("ls -A").split(separator: "\n").sorted() == [
                ".R_SUPPORT", ".S_SUPPORT", "R.sqlite", "S.quire", "S.sqlite", "shared",
            ])
    }

    @Test func anExistingDocumentIsMerged() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            mkdir c; quire new c/L.quire --template Library; quire insert c/L.quire Book title=Lear
            quire insert c/L.quire Author name=Shakespeare
            """)
        #expect(
            try shell.output("quire sync join shared c/L.quire")
                == "c/L.quire is a replica of the shared document in shared: 7 objects; sent 1 file, received 1 file: 3 objects inserted.\n"
        )
        // Joining again changes nothing.
        #expect(
            try shell.output("quire sync join shared c/L.quire").contains("nothing to send"))
        for machine in ["a", "b"] { _ = try shell.output("quire sync run \(machine)/L.quire") }
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        for machine in ["a", "b", "c"] {
            #expect(
                try shell.output(
                    "quire fetch \(machine)/L.quire Book --sort title --columns title | tail -2 | tr -s ' ' | cut -d ' ' -f 2"
                ) == "Emma\nLear\n")
            #expect(try shell.output("quire check \(machine)/L.quire").hasSuffix("all is well.\n"))
        }
    }

    @Test func aJoinThatFailsLeavesNothing() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            mkdir empty; cp -r shared modelless; rm modelless/model/*; cp -r shared wrong
            for m in wrong/model/*; do sed -i s/Author/Writer/g $m; done
            cp -r shared cut; truncate -s 40 cut/container.json; cp -r shared late
            sed -i 's/"format" : 1/"format" : 3/' late/container.json
            cp -r shared large; for m in large/model/*; do truncate -s 5M $m; done
            """)
        let wrong: [(String, Int32, String)] = [
            ("nowhere", 3, "nowhere"),
            ("empty", 3, "does not contain a shared document"),
            ("modelless", 3, "model of the shared document has not arrived"),
            ("wrong", 4, "does not match its name"),
            ("cut", 4, "damaged or has not arrived completely"),
            ("large", 4, "model/"),
            ("late", 1, "later version"),
        ]
        for (folder, code, sentence) in wrong {
            for path in ["new/N.quire", "new/N.sqlite"] {
                _ = try shell.output("mkdir -p new")
                let result = try shell.run("quire sync join \(folder) \(path)")
                #expect(result.code == code, "\(folder): \(result.output)")
                #expect(result.output.contains(sentence), "\(folder): \(result.output)")
                #expect(try shell.output("ls -A new").isEmpty)
            }
        }
        // The place is taken by a folder that is no document.
        #expect(try shell.run("quire sync join shared empty").code != 0)
        #expect(try shell.output("ls -A empty").isEmpty)
    }

    // MARK: - What can be wrong

    @Test func aDamagedFileIsReportedAndTheOthersAreMerged() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            for n in 1 2 3; do quire insert a/L.quire Author name=$n; quire sync run a/L.quire; done
            cp shared/log/*-0000000003-*.seg whole; truncate -s -40 shared/log/*-0000000003-*.seg
            """)
        let result = try shell.run("quire sync run b/L.quire")
        #expect(result.code == 0)
        #expect(result.output.contains("-0000000003-"), "\(result.output)")
        #expect(result.output.contains("incomplete"), "\(result.output)")
        #expect(
            result.output.contains(
                "Sent 0 files, received 2 files: 2 objects inserted; 1 file not merged."),
            "\(result.output)")
        let json = try #require(
            try JSONSerialization.jsonObject(
                with: Data(shell.output("quire sync run b/L.quire --json 2> errors").utf8))
                as? [String: Any])
        let problems = try #require(json["problems"] as? [[String: String]])
        #expect(problems.count == 1)
        #expect(problems[0]["file"]?.contains("-0000000003-") == true)
        #expect(json["received"] as? Int == 0)
        _ = try shell.output("cp whole shared/log/*-0000000003-*.seg; quire sync run b/L.quire")
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "3\n")
    }

    @Test func manyDamagedFilesAreOneLine() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            for n in 1 2 3 4 5 6; do quire insert a/L.quire Author name=$n; quire sync run a/L.quire; done
            for f in shared/log/*.seg; do truncate -s -10 $f; done
            """)
        let result = try shell.run("quire sync run b/L.quire 2>&1 > output; wc -l < output")
        #expect(result.code == 0)
        #expect(
            result.output.hasPrefix("quire: 6 files in “log” were not merged. The first: "),
            "\(result.output)")
        #expect(result.output.split(separator: "\n").count == 2, "\(result.output)")
    }

    @Test func aFolderThatHasLostItsFilesIsSaid() throws {
        let shell = try makeShell()
        _ = try shell.output(
            "quire insert a/L.quire Author name=x; quire sync run a/L.quire; rm -r shared/log")
        let result = try shell.run("quire sync run a/L.quire")
        #expect(
            result.output.contains("no longer contains any files of the document"),
            "\(result.output)")
        #expect(
            try shell.output("quire sync repair a/L.quire; quire sync run a/L.quire")
                .hasSuffix("Nothing to send or receive.\n"))
    }

    @Test func withoutTheFolderDocumentsAreEditedAndSentLater() throws {
        let shell = try makeShell()
        _ = try shell.output("mv shared gone; quire insert a/L.quire Author name=Austen")
        let result = try shell.run("quire sync run a/L.quire")
        #expect(result.code == 1)
        #expect(
            result.output
                == "quire: The shared folder “shared” is missing; reconnect its disk or network. Saved changes will be sent later.\n"
        )
        _ = try shell.output("quire insert a/L.quire Author name=Eliot")
        #expect(try shell.output("quire sync status a/L.quire").contains("To be sent"))
        // It is elsewhere now, which is remembered.
        #expect(
            try shell.output("quire sync run a/L.quire gone") == "Sent 1 file, received 0 files.\n")
        #expect(try shell.output("quire sync run a/L.quire").contains("Nothing to send"))
        _ = try shell.output("mv gone shared; quire sync run b/L.quire")
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "2\n")
    }

    /// As it is where a disk is not mounted.
    @Test func nothingIsSentToAnEmptyFolderOrAnotherDocument() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            mv shared gone; mkdir shared; quire insert a/L.quire Author name=Austen
            mkdir c; quire new c/L.quire --template Library; quire sync init c/L.quire other
            """)
        let empty = try shell.run("quire sync run a/L.quire")
        #expect(empty.code == 1)
        #expect(empty.output.contains("not in the folder"), "\(empty.output)")
        #expect(try shell.output("ls -A shared").isEmpty)
        let other = try shell.run("quire sync run a/L.quire other")
        #expect(other.code == 1)
        #expect(other.output.contains("different shared document"), "\(other.output)")
        #expect(try shell.output("ls other/log | wc -l") == "1\n")
        _ = try shell.output("rmdir shared; mv gone shared; quire sync run a/L.quire")
        _ = try shell.output("quire sync run b/L.quire")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "1\n")
    }

    @Test func copiesThatSyncToolsMakeAreIgnored() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            quire insert a/L.quire Author name=Austen; quire sync run a/L.quire
            cd shared; cp container.json 'container 2.json'; echo x > 'container (conflicted copy).json'
            cd log; for f in *.seg; do
              cp $f "${f%.seg} 2.seg"; cp $f "${f%.seg} (Ada's conflicted copy).seg"; echo x > .$f.icloud
              echo x > "${f%.seg}.sync-conflict-20261126-120000-ABCDEFG.seg"; echo x > $f.partial
            done
            mkdir folder; mkfifo pipe; ln -s nowhere link
            """)
        #expect(
            try shell.output("quire sync run b/L.quire")
                == "Sent 0 files, received 1 file: 1 object inserted.\n")
        _ = try shell.output("quire sync join shared c.quire")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        try expectSame("a/L.quire", "c.quire", in: shell)
    }

    @Test func aDocumentLeaves() throws {
        let shell = try makeShell()
        _ = try shell.output("quire insert b/L.quire Author name=Austen")
        let files = try shell.output("find shared -not -name '*.seg' | sort")
        #expect(
            try shell.output("quire sync leave b/L.quire")
                == "b/L.quire is a local document again and keeps its 4 objects. The latest changes were not sent.\n"
        )
        #expect(try shell.output("quire check b/L.quire").hasSuffix("all is well.\n"))
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "1\n")
        #expect(try shell.output("find shared -not -name '*.seg' | sort") == files)
        // The others are told.
        _ = try shell.output("quire sync run a/L.quire")
        #expect(try shell.output("quire sync status a/L.quire").contains("retired."))
        #expect(try shell.run("quire sync run b/L.quire").code == 1)
        #expect(try shell.run("quire sync leave b/L.quire").code == 1)
        // It may join again: what both have is merged.
        _ = try shell.output("quire sync join shared b/L.quire; quire sync run a/L.quire")
        #expect(try shell.output("quire fetch a/L.quire Author --count") == "1\n")
    }

    @Test func whatCannotBeDoneIsSaid() throws {
        let shell = try makeShell()
        try makeStore("R.sqlite", in: shell) { _ = try $0.insertObject(entityName: "Recipe") }
        _ = try shell.output(
            """
            quire convert R.sqlite R.xml --to xml; mkdir inside; cp R.sqlite inside
            quire new Plain.quire --template Library; quire export Plain.quire Plain.zip
            quire sync init Plain.quire other; quire new New.quire --template Library; echo x > text
            """)
        let before = try shell.output("find . -type f | sort")
        let wrong: [(String, Int32, String)] = [
            ("init None.quire new", 3, "None.quire"),
            ("init R.sqlite", 2, "FOLDER"),
            ("init R.sqlite new --name ''", 2, "--name requires a name"),
            ("init R.sqlite new --password-fd 0", 2, "--password-fd requires --encrypt"),
            ("init R.sqlite new --encrypt --password-fd 9 9<&-", 2, "--password-fd 9"),
            ("join shared New.quire --password-fd 3 3< text", 1, "is not encrypted"),
            ("init R.sqlite nowhere/new", 3, "nowhere"),
            ("init R.sqlite text", 3, "text"),
            ("init a/L.quire new", 1, "already synchronized"),
            ("init R.sqlite shared", 1, "already contains a shared document"),
            ("init R.xml new", 1, "cannot be synchronized, because"),
            ("init Plain.zip new", 1, "is an archive"),
            ("init inside/R.sqlite inside", 4, "is in the shared folder"),
            ("init R.sqlite New.quire/folder", 4, "is inside the document"),
            ("join shared Plain.quire", 1, "another shared document"),
            ("join shared shared/L.quire", 4, "is in the shared folder"),
            ("join shared nowhere/L.quire", 3, "nowhere"),
            ("join shared New.quire/L.quire", 4, "is inside the document"),
            ("run R.sqlite", 1, "is not synchronized; run"),
            ("run None.sqlite", 3, "None.sqlite"),
            ("run R.xml", 1, "cannot be synchronized"),
            ("run a/L.quire nowhere", 1, "is missing"),
            ("watch R.sqlite", 1, "is not synchronized"),
            ("watch R.xml", 1, "cannot be synchronized"),
            ("watch None.sqlite", 3, "None.sqlite"),
            ("status R.sqlite", 1, "is not synchronized"),
            ("status R.xml", 1, "cannot be synchronized"),
            ("conflicts R.sqlite", 1, "is not synchronized"),
            ("resolve a/L.quire 1", 2, "--lost or --kept"),
            ("resolve a/L.quire 1 --lost --kept", 2, "--lost or --kept"),
            ("resolve a/L.quire 1 --kept --set a=b", 2, "--lost or --kept"),
            ("resolve a/L.quire 1 2 --set a=b", 2, "one hidden object"),
            ("resolve a/L.quire 1 1 --lost", 2, "specified twice"),
            ("resolve a/L.quire first --lost", 2, "first"),
            ("resolve a/L.quire 7 --lost", 3, "no conflict 7"),
            ("leave R.sqlite", 1, "is not synchronized"),
            ("leave R.sqlite --everywhere", 1, "is not synchronized"),
            ("repair R.sqlite", 1, "is not synchronized"),
            ("rebuild R.sqlite", 1, "is not synchronized"),
            ("retire a/L.quire first", 2, "32 hexadecimal digits"),
            ("retire a/L.quire 0123456789abcdef0123456789abcdef", 3, "no replica"),
        ]
        for (arguments, code, sentence) in wrong {
            let result = try shell.run("quire sync \(arguments)")
            #expect(result.code == code, "\(arguments): \(result.output)")
            #expect(result.output.contains(sentence), "\(arguments): \(result.output)")
        }
        #expect(try shell.output("find . -type f | sort") == before)
    }

    @Test func aDocumentThatIsOpenElsewhereIsWaitedFor() throws {
        let shell = try makeShell()
        let output = try shell.output(
            """
            mkfifo pipe; quire open a/L.quire < pipe > /dev/null & owner=$!; exec 3> pipe
            echo 'insert Author name=Austen' >&3; echo save >&3
            until quire status a/L.quire | grep -q 'Open for writing'; do :; done
            quire sync run a/L.quire --wait 0 > out 2>&1; echo "code $?"; cat out
            quire sync status a/L.quire > /dev/null; echo "code $?"
            exec 3>&-; wait $owner; quire sync run a/L.quire
            """)
        let lines = output.split(separator: "\n")
        #expect(lines.first == "code 6", "\(output)")
        #expect(lines.contains("code 0"), "\(output)")
        #expect(lines.last == "Sent 1 file, received 0 files.", "\(output)")
    }

    @Test func largeValuesThatArriveLaterAreAdded() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new n.quire --template Notes; head -c 300000 /dev/zero > data
            quire insert n.quire Attachment name=zeros; quire data put n.quire Attachment/p1 data data
            quire sync init n.quire shared; mv shared/blob late
            """)
        #expect(
            try shell.output("quire sync join shared m.quire").hasSuffix(
                "3 objects inserted, additional content changed; 1 file with large values not yet received.\n"
            ))
        #expect(try shell.output("quire sync status m.quire").contains("1 file with large values"))
        let check = try shell.run("quire check m.quire")
        #expect(check.code == 4)
        #expect(check.output.contains("1 large value has not arrived"), "\(check.output)")
        let export = try shell.run("quire export m.quire m.zip")
        #expect(export.code == 4)
        #expect(
            export.output.contains("was not exported, because it is incomplete"),
            "\(export.output)")
        _ = try shell.output("test ! -e m.zip; quire export m.quire m.zip --keep-damage")
        #expect(
            try shell.output("mv late shared/blob; quire sync run m.quire")
                == "Sent 0 files, received 0 files: 1 object changed.\n")
        _ = try shell.output("quire data get m.quire Attachment/p1 data --output got; cmp got data")
        _ = try shell.output("quire check m.quire; quire export m.quire whole.zip")
    }

    @Test func syncOfProtectedDocumentNeedsAnEncryptedFolder() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "quire new p.quire --template Library --class complete --key-file k --make-key-file")
        let locked = try shell.run("quire sync init p.quire shared")
        #expect(locked.code == 5)
        #expect(try shell.output("ls") == "k\np.quire\n")
        let refused = try shell.run("quire sync init p.quire shared --key-file k")
        #expect(refused.code != 0)
        #expect(refused.output.contains("is protected (complete), but the shared folder is not"))
        #expect(try shell.output("ls") == "k\np.quire\n")
        _ = try shell.output("quire sync init p.quire shared --key-file k --in-clear")
        #expect(try shell.run("quire sync run p.quire --key-file k").code != 0)
        for verb in ["info", "sync status"] {
            #expect(
                try shell.output("quire \(verb) p.quire --key-file k").contains(
                    "Protection: complete; shared folder: not encrypted\n"), "\(verb)")
        }
        _ = try shell.output(
            "quire new j.quire --template Library --class complete --key-file k")
        #expect(try shell.run("quire sync join shared j.quire --key-file k").code != 0)
        _ = try shell.output("quire sync join shared j.quire --key-file k --in-clear")
        // One that is protected when it is synchronized already.
        _ = try shell.output(
            """
            quire new c.quire --template Library; quire sync init c.quire clear
            quire protect c.quire --class complete --key-file k
            quire set c.quire Friend/p1 name=SECRET --key-file k
            """)
        #expect(try shell.run("quire sync run c.quire --key-file k").code != 0)
        #expect(try shell.run("grep -r SECRET clear").code == 1)
        _ = try shell.output(
            "quire new q.quire --template Library --class complete --key-file k; echo pass > pass")
        #expect(
            try shell.output(
                "quire sync init q.quire hidden --key-file k --encrypt --password-fd 3 3< pass 2>&1"
            ) == "Created the encrypted shared document “q” in hidden: 2 objects, 1 file sent.\n")
        #expect(try shell.run("quire sync run p.quire").code == 5)
        #expect(
            try shell.output("quire sync run p.quire --key-file k --in-clear").contains(
                "received 1 file: 2 objects inserted"))
    }

    @Test func aRestoredVersionIsAChangeLikeOthers() throws {
        let shell = try makeShell()
        _ = try shell.output(
            """
            quire versions keep b/L.quire --name old; quire set b/L.quire Book/p1 title=Persuasion
            quire sync run b/L.quire; quire versions restore b/L.quire old; quire sync run b/L.quire
            """)
        let titles = try shell.output("quire fetch b/L.quire Book --columns title | tail -1")
        #expect(titles.hasSuffix("Emma\n"))
        #expect(
            try shell.output(
                "quire sync run a/L.quire; quire fetch a/L.quire Book --columns title | tail -1"
            )
            .hasSuffix("Emma\n"))
    }

    // MARK: - Watching

    /// Runs commands while both documents are watched, and gives what was printed, and the codes. `printed FILE N` waits for so
    /// many lines.
    private func watch(while commands: String, in shell: CommandShell) throws -> [String] {
        normal(
            try shell.run(
                """
                touch outa erra outb errb
                running() { kill -0 $first 2> /dev/null && kill -0 $second 2> /dev/null; }
                printed() { until [ $(wc -l < $1) -ge $2 ] || ! running; do :; done; }
                env --default-signal quire sync watch a/L.quire > outa 2> erra & first=$!
                env --default-signal quire sync run b/L.quire --watch --json > outb 2> errb & second=$!
                printed erra 1; printed errb 1
                { \(commands); } > /dev/null 2>&1
                kill -INT $first; kill -TERM $second
                wait $first 2> /dev/null; echo "code $?"; wait $second 2> /dev/null; echo "code $?"
                cat outa erra outb errb
                """
            ).output)
    }

    @Test func anEditGoesBothWaysWhileBothAreWatched() throws {
        let shell = try makeShell()
        let lines = try watch(
            while: """
                quire set a/L.quire Book/p1 title=Persuasion; printed outb 1
                quire insert b/L.quire Author name=Austen; printed outa 2
                """, in: shell)
        #expect(lines.prefix(2) == ["code 0", "code 0"], "\(lines)")
        #expect(lines.contains("TIME  sent 1 file, received 0 files"), "\(lines)")
        #expect(
            lines.contains("TIME  sent 0 files, received 1 file: 1 object inserted"), "\(lines)")
        #expect(
            lines.contains {
                $0.hasPrefix(#"{"changesFiles": false, "conflicts": 0, "date": "TIME""#)
                    && $0.contains(#""updated": 1"#)
            }, "\(lines)")
        #expect(lines.contains("quire: Watching “a/L.quire” and “shared”."), "\(lines)")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(
            try shell.output("quire fetch b/L.quire Book --count --where 'title == \"Persuasion\"'")
                == "1\n")
        #expect(
            try shell.output("find a b -name '*-wal' -o -name '*-shm' -o -name '.tmp*'").isEmpty)
    }

    @Test func withoutTheFolderWatchingGoesOn() throws {
        let shell = try makeShell()
        let lines = try watch(
            while: """
                mv shared gone; quire insert a/L.quire Author name=Austen
                printed erra 2; mv gone shared; printed outb 1
                """, in: shell)
        #expect(lines.prefix(2) == ["code 0", "code 0"], "\(lines)")
        #expect(
            lines.filter {
                $0.hasPrefix("quire: The shared folder “shared” is missing")
                    && $0.hasSuffix("Using local storage.")
            }.count >= 1, "\(lines)")
        #expect(lines.contains("quire: Synchronization of “a/L.quire” continues."), "\(lines)")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "1\n")
    }

    @Test func watchingWaitsForWhoHasTheDocumentOpen() throws {
        let shell = try makeShell()
        let lines = try watch(
            while: """
                mkfifo pipe; quire open a/L.quire < pipe & owner=$!; exec 3> pipe
                echo 'insert Author name=Austen' >&3; echo save >&3; exec 3>&-; wait $owner
                printed outb 1
                """, in: shell)
        #expect(lines.prefix(2) == ["code 0", "code 0"], "\(lines)")
        try expectSame("a/L.quire", "b/L.quire", in: shell)
        #expect(try shell.output("quire fetch b/L.quire Author --count") == "1\n")
    }

    @Test func aStoreThatIsReplacedEndsWatching() throws {
        let shell = try CommandShell()
        try makeStore("R.sqlite", in: shell) { _ = try $0.insertObject(entityName: "Recipe") }
        let result = try shell.run(
            """
            quire sync init R.sqlite shared > /dev/null
            env --default-signal quire sync watch R.sqlite > out 2> err & watcher=$!
            until grep -q Watching err || ! kill -0 $watcher; do :; done
            cp R.sqlite New.sqlite; mv New.sqlite R.sqlite; touch shared/log/x.seg; wait $watcher
            """)
        #expect(result.code == 1)
        #expect(try shell.output("cat err").contains("has replaced or removed"))
    }
}
