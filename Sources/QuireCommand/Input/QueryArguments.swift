import ArgumentParser
import Quire

/// What is asked of a document: an entity, which of its objects, and what of them.
struct QueryArguments: ParsableArguments {
    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @OptionGroup var filter: FilterOption
    @OptionGroup var listing: ListingOptions
    @OptionGroup var grouping: GroupingOptions

    /// Makes a request of it.
    ///
    /// - Throws: `QuireError` with code `unknownEntity`, `unknownKey` or `invalidQuery`.
    @MainActor
    func listingRequest(in layout: ModelLayout) throws -> ListingRequest {
        let entity = try layout.requireEntity(named: entity)
        let request = FetchRequest(entity.name, predicate: try filter.predicate)
        return try ListingRequest(request, listing, grouping, in: layout)
    }
}
