import Foundation

// Until the branches that bring these are merged. If your merge has a real one, delete it here.
extension FetchRequest {
    func resolved(in layout: ModelLayout) throws -> FetchRequest { self }
    func entitiesBeyond(_ entity: EntityLayout, in layout: ModelLayout) -> [EntityLayout] { [] }
}
extension QueryPredicate {
    func evaluate(with object: ManagedObject) throws -> Bool { true }
}
extension SortOrdering {
    func compare(_ left: ManagedObject, _ right: ManagedObject) throws -> ComparisonResult {
        .orderedSame
    }
}
