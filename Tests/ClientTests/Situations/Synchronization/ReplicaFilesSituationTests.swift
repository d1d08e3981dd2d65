import Foundation
import Quire
import QuireSync
import Testing

/// Stores and shared folders that are copied, restored, moved, damaged or used twice.
@MainActor @Suite struct ReplicaFilesSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Note") {
            Attribute("name", .string)
            Attribute("text", .string)
            Attribute("count", .integer32).default(0).userInfo(["syncPolicy": .string("counter")])
            Attribute("image", .binary).externalStorage()
            ToMany("tags", "Tag", inverse: "notes")
        }
        Entity("Tag") {
            Attribute("name", .string)
            ToMany("notes", "Note", inverse: "tags")
            Unique("name")
        }
    }

    private func open(_ store: String, in folder: URL, shared: String = "Shared") throws -> Replica
    {
        try Replica(
            Self.model, store: folder.appendingPathComponent(store),
            shared: folder.appendingPathComponent(shared))
    }

    private func copy(
        _ store: String, to other: String, in folder: URL, overwriting: Bool = false
    ) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
        where name.hasPrefix(store) || name.hasPrefix(".\(store.split(separator: ".")[0])_") {
            let target = folder.appendingPathComponent(
                name.replacingOccurrences(
                    of: store.split(separator: ".")[0], with: other.split(separator: ".")[0]))
            let source = folder.appendingPathComponent(name)
            if overwriting, !name.hasPrefix(".") {
                try Data(contentsOf: source).write(to: target)
                continue
            }
            try? FileManager.default.removeItem(at: target)
            try FileManager.default.copyItem(at: source, to: target)
        }
    }

    /// A backup of a store is restored: what was written since is not lost, what was deleted since does not come back, and what is
    /// written afterwards is sent. turso issue 8129; submersion-app/submersion pull request 309.
    ///
    /// The backup takes the place of the file, whose number it often gets, or is written over its bytes.
    @Test(arguments: [true, false], [true, false])
    func aRestoredBackupLosesNothingAndBringsNothingBack(
        isEditedFirst: Bool, overwriting: Bool
    ) async throws {
        try await withReplicas(
            2, Self.model,
            start: {
                let tag = try $0.insert("Tag", "old")
                try $0.insert("Note", "gone", ["tags": Set([tag])])
                try $0.insert("Note", "n", ["count": 1, "text": "before"])
            }
        ) { replicas, folder in
            // Not sent when the backup is made.
            try replicas[0].edit {
                try $0.insert("Note", "draft", ["text": "unsent"])
                try $0.insert("Note", "draft 2")
            }
            try replicas[0].container.close()
            try copy("0.sqlite", to: "backup.sqlite", in: folder)
            let first = try open("0.sqlite", in: folder)
            try first.edit {
                try $0.delete("Note", "gone")
                try $0.delete("Tag", "old")
                try $0.insert("Note", "sent", ["image": Data(repeating: 5, count: 200_000)])
                try $0.object("Note", "n")["count"] = 3
                try $0.object("Note", "n")["text"] = "after"
            }
            try await settle([first, replicas[1]])
            try replicas[1].edit { try $0.delete("Note", "draft 2") }
            try await settle([replicas[1], first])
            try first.edit { try $0.object("Note", "n")["count"] = 4 }
            try await first.sync.synchronize()
            try first.container.close()

            try copy("backup.sqlite", to: "0.sqlite", in: folder, overwriting: overwriting)
            let restored = try open("0.sqlite", in: folder)
            if !isEditedFirst { try await restored.sync.synchronize() }
            try restored.edit {
                try $0.insert("Note", "new", ["tags": Set([$0.insert("Tag", "new")])])
                let count = try $0.object("Note", "n")["count"] as? Int ?? 0
                try $0.object("Note", "n")["count"] = count + 10
            }
            try replicas[1].edit { try $0.object("Note", "n")["count"] = 103 }
            try await settle([restored, replicas[1]])
            #expect(
                try replicas[1].rows() == [
                    "Note draft count=0 text=unsent", "Note n count=114 text=after",
                    "Note new count=0 tags{new}",
                    "Note sent count=0 image=200000×5", "Tag new notes{new}",
                ])
            try await expectSame([restored, replicas[1]])
            try restored.container.close()
        }
    }

    /// A store is copied to another machine instead of being joined there; both edit the same objects before either has a round.
    /// laurent22/joplin issue 6392: a copied profile cannot be synchronized any more.
    @Test func aCopiedStoreIsAnotherReplicaAlsoForTheSameEdits() async throws {
        try await withReplicas(
            2, Self.model,
            start: {
                try $0.insert("Note", "n", ["count": 1, "text": "0"])
                try $0.insert("Note", "m")
            }
        ) { replicas, folder in
            // With an edit that has not been sent when it is copied.
            try replicas[0].edit {
                try $0.object("Note", "n")["text"] = "unsent"
                try $0.insert("Note", "draft", ["tags": Set([$0.insert("Tag", "u")])])
            }
            try replicas[0].container.close()
            try copy("0.sqlite", to: "copy.sqlite", in: folder)
            let first = try open("0.sqlite", in: folder)
            let second = try open("copy.sqlite", in: folder)
            for (index, replica) in [first, second].enumerated() {
                try replica.edit {
                    let note = try $0.object("Note", "n")
                    note["count"] = 11
                    note["text"] = "\(index)"
                    try $0.insert("Note", "new \(index)", ["tags": Set([$0.insert("Tag", "t")])])
                }
            }
            try second.edit { try $0.delete("Note", "m") }
            try await settle([second, replicas[1], first])
            let rows = try first.rows()
            #expect(
                rows == [
                    "Note draft count=0 tags{u}", "Note n count=21 text=1",
                    "Note new 0 count=0 tags{t}",
                    "Note new 1 count=0 tags{t}", "Tag t notes{new 0 new 1}",
                    "Tag u notes{draft}",
                ])
            try await expectSame([first, second, replicas[1]])
            for replica in [first, second] { try replica.container.close() }
        }
    }

    /// A program and its helper synchronize one store at the same time. mentrena/SyncKit issue 17: everything is duplicated.
    @Test func twoProgramsSynchronizeOneStore() async throws {
        try await withReplicas(2, Self.model, start: { try $0.insert("Note", "n") }) {
            replicas, folder in
            let helper = try open("0.sqlite", in: folder)
            for round in 0..<5 {
                try replicas[0].edit { try $0.insert("Note", "a\(round)") }
                try helper.edit { try $0.insert("Note", "h\(round)") }
                try replicas[1].edit { try $0.insert("Note", "b\(round)") }
                async let first = replicas[0].sync.synchronize()
                async let second = helper.sync.synchronize()
                async let third = replicas[1].sync.synchronize()
                _ = try await (first, second, third)
            }
            try await settle([replicas[0], helper, replicas[1]])
            #expect(try replicas[1].names("Note").count == 16)
            for replica in [replicas[0], helper] { replica.context.refreshAllObjects() }
            try await expectSame([replicas[0], helper, replicas[1]])
            #expect(try await replicas[1].sync.status()?.peers.count == 2)
            try helper.container.close()
        }
    }

    /// The shared folder is moved, as after a change of the cloud drive; meanwhile one machine still looks at the old place.
    @Test func theSharedFolderIsMoved() async throws {
        try await withReplicas(2, Self.model, start: { try $0.insert("Note", "n") }) {
            replicas, folder in
            let (old, new) = (replicas[0].shared, folder.appendingPathComponent("Cloud"))
            try FileManager.default.moveItem(at: old, to: new)
            try replicas[1].edit { try $0.object("Note", "n")["text"] = "late" }
            let error = await #expect(throws: QuireError.self) {
                try await replicas[1].sync.synchronize()
            }
            #expect(error?.code == .storeUnavailable)
            try replicas[0].container.close()
            let first = try open("0.sqlite", in: folder, shared: "Cloud")
            try first.edit { try $0.insert("Note", "m") }
            try await first.sync.synchronize()
            try replicas[1].container.close()
            let second = try open("1.sqlite", in: folder, shared: "Cloud")
            try await settle([second, first])
            #expect(try first.rows() == ["Note m count=0", "Note n count=0 text=late"])
            try await expectSame([first, second])
            for replica in [first, second] { try replica.container.close() }
        }
    }

    /// Two documents in one shared folder, beside each other and then in each other's place.
    @Test func twoDocumentsInOneSharedFolder() async throws {
        try await withProgramFolder { folder in
            var replicas: [Replica] = []
            let drive = folder.appendingPathComponent("Drive")
            try FileManager.default.createDirectory(at: drive, withIntermediateDirectories: true)
            for name in ["a", "b"] {
                let replica = try open("\(name).sqlite", in: folder, shared: "Drive/\(name)")
                try replica.edit { try $0.insert("Note", name) }
                try await replica.sync.create(named: name)
                try await replica.sync.synchronize()
                replicas.append(replica)
            }
            for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
                try FileManager.default.moveItem(
                    at: drive.appendingPathComponent(from), to: drive.appendingPathComponent(to))
            }
            for replica in replicas {
                try replica.edit { try $0.insert("Note", "more") }
                let error = await #expect(throws: QuireError.self) {
                    try await replica.sync.synchronize()
                }
                #expect(error?.code == .storeUnavailable)
                await #expect(throws: QuireError.self) { try await replica.sync.join() }
            }
            // Segments of one that somebody copies into the other's folder are not merged.
            for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
                try FileManager.default.moveItem(
                    at: drive.appendingPathComponent(from), to: drive.appendingPathComponent(to))
            }
            let log = drive.appendingPathComponent("a/log")
            for name in try FileManager.default.contentsOfDirectory(atPath: log.path) {
                try FileManager.default.copyItem(
                    at: log.appendingPathComponent(name),
                    to: drive.appendingPathComponent("b/log/\(name)"))
            }
            for (replica, name) in zip(replicas, ["a", "b"]) {
                let result = try await replica.sync.synchronize()
                #expect(result.problems.isEmpty == (name == "a"))
                #expect(try replica.names("Note") == [name, "more"].sorted())
                try replica.container.close()
            }
        }
    }

    /// What carriers leave in a folder: conflict copies, temporary files, names in other letters, half a file. Syncthing issues 439
    /// and 1787; Dropbox’s “conflicted copy”.
    @Test func whatCarriersLeaveInTheFolderChangesNothing() async throws {
        try await withReplicas(
            2, Self.model,
            start: { try $0.insert("Note", "n", ["image": Data(repeating: 1, count: 200_000)]) }
        ) { replicas, folder in
            try replicas[0].edit {
                try $0.object("Note", "n")["text"] = "1"
                try $0.insert("Note", "m", ["image": Data(repeating: 2, count: 200_000)])
            }
            try await replicas[0].sync.synchronize()
            let manager = FileManager.default
            let files = try #require(manager.enumerator(atPath: folder.path))
                .compactMap { $0 as? String }
                .filter { $0.hasPrefix("Shared/") && $0.contains(".") || $0.contains("/blob/") }
            var whole: [URL: Data] = [:]
            for path in files {
                let url = folder.appendingPathComponent(path)
                guard let data = try? Data(contentsOf: url) else { continue }
                let name = url.lastPathComponent
                for copy in [
                    "\(name).sync-conflict-20261126-120000-ABCDEFG", ".syncthing.\(name).tmp",
                    "~syncthing~\(name).tmp", "\(name) (ada's conflicted copy 2026-11-26)",
                    name.uppercased(), "._\(name)", "\(name).part", ".\(name).swp",
                ] {
                    try data.prefix(data.count / 2).write(
                        to: url.deletingLastPathComponent().appendingPathComponent(copy))
                }
                // Segments and large values have arrived by half.
                if name != "container.json" {
                    whole[url] = data
                    try data.prefix(data.count / 2).write(to: url)
                }
            }
            let before = try replicas[1].rows()
            _ = try await replicas[1].sync.synchronize()
            #expect(try replicas[1].rows() == before)
            for (url, data) in whole { try data.write(to: url) }
            try await settle(replicas)
            #expect(
                try replicas[1].rows() == [
                    "Note m count=0 image=200000×2", "Note n count=0 image=200000×1 text=1",
                ])
            try await expectSame(replicas)
            let late = try open("late.sqlite", in: folder)
            try await late.sync.join()
            try await settle([late] + replicas)
            try await expectSame(replicas + [late])
            try late.container.close()
        }
    }

    /// Somebody empties the log, or one machine's disk was full; a newcomer lacks it all until a machine repairs the folder.
    @Test func filesThatWereDeletedAreSentAgainByARepair() async throws {
        try await withReplicas(
            2, Self.model,
            start: { try $0.insert("Note", "n", ["image": Data(repeating: 1, count: 200_000)]) }
        ) { replicas, folder in
            try replicas[1].edit { try $0.insert("Note", "m") }
            try await settle(replicas)
            for name in ["log", "blob", "base"] {
                let part = replicas[0].shared.appendingPathComponent(name)
                guard FileManager.default.fileExists(atPath: part.path) else { continue }
                for file in try FileManager.default.contentsOfDirectory(atPath: part.path) {
                    try FileManager.default.removeItem(at: part.appendingPathComponent(file))
                }
            }
            try replicas[1].edit { try $0.object("Note", "n")["text"] = "edited" }
            for replica in replicas.reversed() { try await replica.sync.synchronize() }
            #expect(try replicas[0].object("Note", "n")["text"] as? String == "edited")
            try await replicas[0].sync.repair()
            let late = try open("late.sqlite", in: folder)
            try await late.sync.join()
            try await settle([late] + replicas)
            #expect(
                try late.rows() == [
                    "Note m count=0", "Note n count=0 image=200000×1 text=edited",
                ])
            try await expectSame(replicas + [late])
            try late.container.close()
        }
    }

    /// A machine with a wrong password, one that has lost its store, and one with the key. laurent22/joplin issues 6620 and 13263.
    @Test func aLostStoreIsJoinedAgainByThePasswordOnly() async throws {
        try await withReplicas(
            2, Self.model, password: "correct horse", start: { try $0.insert("Note", "n") }
        ) { replicas, folder in
            try replicas[1].container.close()
            let second = try open("new.sqlite", in: folder)
            try second.edit { try $0.insert("Note", "local") }
            for password in [nil, "", "wrong horse"] {
                await #expect(throws: QuireError.self) {
                    try await second.sync.join(password: password)
                }
                await #expect(throws: QuireError.self) { try await second.sync.synchronize() }
            }
            #expect(try second.names("Note") == ["local"])
            try await second.sync.join(password: "correct horse")
            try await settle([second, replicas[0]])
            #expect(try replicas[0].names("Note") == ["local", "n"])
            try await expectSame([second, replicas[0]])
            // It has the key and needs no password, also after it has left.
            try await second.sync.removeSyncMetadata()
            await #expect(throws: QuireError.self) {
                try await second.sync.join(password: "wrong horse")
            }
            try second.edit { try $0.insert("Note", "while away") }
            try await second.sync.join(password: "correct horse")
            try await settle([second, replicas[0]])
            #expect(try replicas[0].names("Note") == ["local", "n", "while away"])
            try await expectSame([second, replicas[0]])
            try second.container.close()
        }
    }

    /// A machine is away while the others save so often that files are replaced by a snapshot; it has edits of its own, of objects
    /// that are deleted, replaced and renamed meanwhile. WatermelonDB issue 1114.
    @Test func aMachineComesBackAfterACompaction() async throws {
        try await withReplicas(
            2, Self.model,
            start: {
                try $0.insert("Tag", "a")
                for name in ["deleted", "edited", "both"] { try $0.insert("Note", name) }
            }
        ) { replicas, folder in
            let (here, away) = (replicas[0], replicas[1])
            try away.edit {
                try $0.object("Note", "deleted")["text"] = "away"
                try $0.object("Note", "both")["text"] = "away"
                try $0.object("Note", "both")["count"] = 5
                try $0.insert("Tag", "b").add($0.object("Note", "edited"), to: "notes")
                try $0.object("Tag", "a").add($0.object("Note", "both"), to: "notes")
            }
            try here.edit {
                try $0.delete("Note", "deleted")
                try $0.object("Tag", "a")["name"] = "b"
                try $0.insert("Tag", "a")
            }
            for number in 0..<70 {
                try here.edit {
                    let note = try $0.object("Note", "both")
                    note["text"] = "\(number)"
                    note["count"] = number
                }
                try await here.sync.synchronize()
            }
            let files = try FileManager.default.contentsOfDirectory(
                atPath: here.shared.appendingPathComponent("log").path)
            #expect(files.count < 70)
            try await settle([away, here])
            #expect(
                try here.rows() == [
                    "Note both count=74 tags{b} text=69", "Note edited count=0 tags{b}", "Tag a",
                    "Tag b notes{both edited}",
                ])
            expectLines(
                try await here.conflictLines(),
                [
                    "deletion Note.text: away lost, null kept",
                    "hidden Tag.name b: null lost, null kept",
                    "value Note.text: away lost, 69 kept",
                ], "here")
            try await expectSame(replicas)
        }
    }
}
