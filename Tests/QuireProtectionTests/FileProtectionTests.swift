import Foundation
import QuireProtection
import Testing

struct FileProtectionTests {
    @Test func rawValuesAreTheWords() throws {
        #expect(
            FileProtection.allCases.map(\.rawValue) == [
                "none", "complete", "completeUnlessOpen", "completeUntilFirstUserAuthentication",
            ])
        let coded = try JSONEncoder().encode(["class": FileProtection.completeUnlessOpen])
        #expect(String(decoding: coded, as: UTF8.self) == #"{"class":"completeUnlessOpen"}"#)
    }
}
