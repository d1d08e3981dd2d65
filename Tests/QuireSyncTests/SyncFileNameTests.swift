import QuireSync
import Testing

@Suite struct SyncFileNameTests {
    @Test func aNameIsWhatEveryFileSystemHas() {
        #expect(SyncFileName("log/a.seg") != nil)
        #expect(SyncFileName("../a") == nil)
    }
}
