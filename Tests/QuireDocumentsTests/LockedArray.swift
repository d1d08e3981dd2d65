import Quire

/// Elements that several threads add.
final class LockedArray<Element: Sendable>: Sendable {
    private let elements = Lock<[Element]>([])

    func append(_ element: Element) { elements.withLock { $0.append(element) } }

    var values: [Element] { elements.withLock { $0 } }

    func takeAll() -> [Element] {
        elements.withLock { elements in
            defer { elements = [] }
            return elements
        }
    }
}
