import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

@Suite struct SQLOrderKeysTests {
    @Test func firstKeysAreCoreDatas() {
        #expect(SQLOrderKeys.keys(for: [nil, nil, nil]) == [2048, 3072, 4096])
        #expect(SQLOrderKeys.appending(2, after: 5000) == [6024, 7048])
        #expect(SQLOrderKeys.keys(for: []) == [])
    }

    @Test func oneInBetweenTakesTheMiddle() {
        #expect(SQLOrderKeys.keys(for: [2048, nil, 3072]) == [2048, 2560, 3072])
        #expect(SQLOrderKeys.keys(for: [nil, 2048]) == [1024, 2048])
        #expect(SQLOrderKeys.keys(for: [2048, nil]) == [2048, 3072])
    }

    @Test func movedElementAloneGetsANewKey() {
        #expect(SQLOrderKeys.keys(for: [4096, 2048, 3072]) == [1024, 2048, 3072])
        #expect(SQLOrderKeys.keys(for: [3072, 4096, 2048]) == [3072, 4096, 5120])
    }

    @Test func noRoomNumbersAnew() {
        #expect(SQLOrderKeys.keys(for: [2048, nil, 2049]) == [2048, 3072, 4096])
        #expect(SQLOrderKeys.keys(for: [nil, nil, 2]) == [2048, 3072, 4096])
        #expect(SQLOrderKeys.keys(for: [Int64.max - 1, nil]) == [2048, 3072])
        #expect(SQLOrderKeys.keys(for: [7, 7]).sorted().count == 2)
    }

    @Test func prependingHalvesUntilThereIsNoRoom() {
        var keys: [Int64?] = [2048]
        for _ in 0..<11 { keys = SQLOrderKeys.keys(for: [nil] + keys) }
        #expect(keys[0] == 1)
        keys = SQLOrderKeys.keys(for: [nil] + keys)
        #expect(keys[0] == 2048)
    }

    @Test func randomOrdersAscendAndKeepWhatIsInOrder() {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        for _ in 0..<500 {
            let count = Int(random.next() % 12)
            let keys: [Int64?] = (0..<count).map { _ in
                random.next() % 3 == 0 ? nil : Int64(random.next() % 40) - 3
            }
            let result = SQLOrderKeys.keys(for: keys)
            #expect(zip(result, result.dropFirst()).allSatisfy { $0 < $1 }, "seed \(seed), \(keys)")
            #expect(result.allSatisfy { $0 > 0 }, "seed \(seed), \(keys)")
        }
    }
}
