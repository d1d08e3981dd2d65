import Foundation
import Quire

/// Runs a body with UTF-8 as the thread's character encoding.
///
/// A Swift program runs in the C locale, in which libarchive crashes on writing names that are not ASCII, and loses
/// them on reading. This changes the calling thread only, and only until the body returns.
func withUTF8Locale<Result>(_ body: () throws -> Result) throws -> Result {
    let characterTypes: Int32 = 1 << LC_CTYPE
    guard
        let locale = newlocale(characterTypes, "C.UTF-8", nil)
            ?? newlocale(characterTypes, "en_US.UTF-8", nil)
    else {
        throw QuireError(
            .unsupported,
            "This system has no UTF-8 locale, which archives need; install the locale C.UTF-8.")
    }
    let previous = uselocale(locale)
    defer {
        uselocale(previous)
        freelocale(locale)
    }
    return try body()
}
