import Foundation
import QuireTestSupport
import Testing

@testable import Quire

/// The changes reported to observers of to-many relationships, applied to a list.
@MainActor @Suite struct RelationshipObservationTests {
    /// A list that is changed only by the reported changes.
    private final class List {
        var members: [ManagedObject]
        var log: [String] = []
        var didChange: ((RelationshipChange) -> Void)?
        private(set) var observation: RelationshipObservation?

        init(_ owner: ManagedObject, _ key: String) {
            members = owner.objects(key)
            observation = owner.observe(key) { [unowned self] in apply($0) }
        }

        func end() { observation = nil }

        private func apply(_ change: RelationshipChange) {
            log.append("\(change.kind) \(change.indexes.map(String.init).joined(separator: ","))")
            if change.kind != .insertion {
                #expect(change.oldObjects == change.indexes.map { members[$0] })
                for index in change.indexes.reversed() { members.remove(at: index) }
            }
            for (index, object) in zip(change.indexes, change.newObjects) {
                members.insert(object, at: index)
            }
            didChange?(change)
        }
    }

    let stack: TestStack
    let context: ManagedObjectContext
    let playlist: ManagedObject
    let songs: [ManagedObject]

    init() throws {
        stack = try TestStack()
        let context = stack.mainContext()
        self.context = context
        playlist = try context.insertObject(entityName: "Playlist")
        songs = try (0..<6).map { number in
            let song = try context.insertObject(entityName: "Song")
            song["title"] = "s\(number)"
            return song
        }
        playlist["songs"] = Array(songs.prefix(4))
        context.undoManager = UndoManager()
        try context.save()
    }

    @Test func everyCallIsReportedWithPositions() throws {
        let list = List(playlist, "songs")
        playlist.insert(songs[4], into: "songs", at: 1)
        playlist.add(songs[5], to: "songs")
        playlist.remove(songs[0], from: "songs")
        #expect(list.log == ["insertion 1", "insertion 5", "removal 0"])
        #expect(list.members == playlist.objects("songs"))
        list.log = []
        playlist.replaceObject(in: "songs", at: 2, with: songs[0])
        playlist.removeObject(from: "songs", at: 0)
        playlist.moveObject(in: "songs", from: 3, to: 0)
        #expect(list.log == ["replacement 2", "removal 0", "removal 3", "insertion 0"])
        #expect(list.members == playlist.objects("songs"))
        list.log = []
        // No change is none.
        playlist.add(songs[0], to: "songs")
        playlist["songs"] = playlist.objects("songs")
        #expect(list.log == [])
    }

    @Test func whatIsSetAsAWholeIsReportedByItsDifference() throws {
        let list = List(playlist, "songs")
        playlist["songs"] = [songs[3], songs[1], songs[4]]
        #expect(list.members == [songs[3], songs[1], songs[4]])
        #expect(list.log.count == 2)
        list.log = []
        playlist["songs"] = [songs[3], songs[5], songs[4]]
        #expect(list.log == ["replacement 1"])
        list.log = []
        playlist["songs"] = []
        #expect(list.log == ["removal 0,1,2"])
        #expect(list.members == [])
    }

    @Test func theOtherSideIsReported() throws {
        let list = List(playlist, "songs")
        songs[4].add(playlist, to: "playlists")
        songs[0].remove(playlist, from: "playlists")
        #expect(list.log == ["insertion 4", "removal 0"])

        let shelf = try context.insertObject(entityName: "Shelf")
        let other = try context.insertObject(entityName: "Shelf")
        let book = try context.insertObject(entityName: "Book")
        book["title"] = "Emma"
        let first = List(shelf, "books")
        let second = List(other, "books")
        book["shelf"] = shelf
        book["shelf"] = other
        #expect(first.log == ["insertion 0", "removal 0"])
        #expect(second.log == ["insertion 0"])
    }

    @Test func undoRollbackAndDeletionAreReported() throws {
        let list = List(playlist, "songs")
        playlist.insert(songs[4], into: "songs", at: 1)
        context.processPendingChanges()
        list.log = []
        context.undo()
        context.processPendingChanges()
        #expect(list.log == ["removal 1"])
        context.redo()
        context.processPendingChanges()
        #expect(list.log == ["removal 1", "insertion 1"])
        context.rollback()
        #expect(list.members == Array(songs.prefix(4)))
        list.log = []
        context.delete(songs[2])
        context.processPendingChanges()
        #expect(list.log == ["removal 2"])
        try context.save()
        context.delete(playlist)
        context.processPendingChanges()
        #expect(list.log == ["removal 2"])
    }

    @Test func mergesAndRefreshesAreReported() throws {
        let list = List(playlist, "songs")
        let other = stack.mainContext()
        let same = try other.existingObject(with: playlist.objectID)
        same.insert(try other.existingObject(with: songs[5].objectID), into: "songs", at: 0)
        same.remove(try other.existingObject(with: songs[1].objectID), from: "songs")
        try other.save()
        context.refresh(playlist, mergeChanges: false)
        #expect(list.members.map(\.objectID) == same.objectIDs("songs"))
        #expect(list.log == ["removal 1", "insertion 0"])
    }

    @Test func newIdentifiersAreNoChange() throws {
        let list = List(playlist, "songs")
        let song = try context.insertObject(entityName: "Song")
        playlist.insert(song, into: "songs", at: 0)
        list.log = []
        try context.save()
        #expect(!song.objectID.isTemporaryID)
        playlist.moveObject(in: "songs", from: 0, to: 4)
        #expect(list.log == ["removal 0", "insertion 4"])
        #expect(list.members.last === song)
    }

    @Test func observersMayChangeTheRelationship() throws {
        let list = List(playlist, "songs")
        list.didChange = { [songs, playlist] change in
            if change.newObjects.contains(songs[4]) {
                playlist.insert(songs[5], into: "songs", at: 0)
            }
        }
        playlist.add(songs[4], to: "songs")
        #expect(list.log == ["insertion 4", "insertion 0"])
        #expect(list.members == playlist.objects("songs"))
    }

    @Test func anObservationEndsWhenItIsReleased() throws {
        let list = List(playlist, "songs")
        list.end()
        playlist.remove(songs[0], from: "songs")
        #expect(list.log == [])
        var count = 0
        let observation = playlist.observe("songs") { _ in count += 1 }
        playlist.remove(songs[1], from: "songs")
        observation.invalidate()
        playlist.remove(songs[2], from: "songs")
        #expect(count == 1)
    }

    @Test func relationshipsWithoutOrderHaveNoPositions() throws {
        let author = try context.insertObject(entityName: "Author")
        let book = try context.insertObject(entityName: "Book")
        var changes: [RelationshipChange] = []
        let observation = author.observe("books") { changes.append($0) }
        book["author"] = author
        author["books"] = Set<ManagedObject>()
        #expect(changes.map(\.kind) == [.insertion, .removal])
        #expect(changes.map(\.newObjects) == [[book], []])
        #expect(changes.map(\.oldObjects) == [[], [book]])
        #expect(!changes.contains { !$0.indexes.isEmpty })
        withExtendedLifetime(observation) {}
    }

    @Test(arguments: SeededRandom.seeds(30))
    func randomArrangementsAreReportedInFull(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let list = List(playlist, "songs")
        for _ in 0..<30 {
            let count = Int.random(in: 0...songs.count, using: &random)
            playlist["songs"] = Array(songs.shuffled(using: &random).prefix(count))
            #expect(list.members == playlist.objects("songs"), "seed \(seed)")
        }
    }
}
