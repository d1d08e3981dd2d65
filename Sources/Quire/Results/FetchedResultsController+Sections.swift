extension FetchedResultsController {
    /// The sections in their order; `nil` before ``performFetch()``. Without section key path, one with all results.
    ///
    /// - Complexity: O(*s*) in the sections.
    public var sections: [FetchedResultsSectionInfo<Result>]? {
        guard let list = state?.list, let objects = fetchedObjects else { return nil }
        return list.sections.map { section in
            FetchedResultsSectionInfo(
                name: section.name, indexTitle: indexTitle(of: section.name),
                objects: objects[section.start..<(section.start + section.count)])
        }
    }

    /// The titles of the section index: those of the sections, in their order, each once.
    public var sectionIndexTitles: [String] {
        managedObjectContext.checkQueue()
        var seen: Set<String> = []
        return (state?.list.sections ?? []).compactMap { section in
            indexTitle(of: section.name).flatMap { seen.insert($0).inserted ? $0 : nil }
        }
    }

    /// The title in the section index for a section name: its first character in upper case, `nil` if it is empty. A
    /// delegate can give others.
    public func sectionIndexTitle(forSectionName sectionName: String) -> String? {
        sectionName.first?.uppercased()
    }

    /// The number of the first section with a title of ``sectionIndexTitles``; `nil` if there is no such title at the
    /// position.
    public func section(forSectionIndexTitle title: String, at position: Int) -> Int? {
        let titles = sectionIndexTitles
        guard titles.indices.contains(position), titles[position] == title else { return nil }
        return state?.list.sections.firstIndex { indexTitle(of: $0.name) == title }
    }

    private func indexTitle(of name: String) -> String? {
        guard let delegate else { return sectionIndexTitle(forSectionName: name) }
        return delegate.controller(self, sectionIndexTitleForSectionName: name)
    }
}
