/// The style of a page, for screens of all widths, light and dark, and for print.
enum PageStyle {
    /// CSS without an address.
    static let text = #"""
        :root {
            color-scheme: light dark;
            --page: #f7f7f5;
            --surface: #ffffff;
            --text: #1d1d1f;
            --quiet: #5c5f66;
            --line: #dcdcd8;
            --hover: #f0f0ec;
            --accent: #0a56a3;
            --problem: #a3261b;
            --mark: #ffe58a;
        }

        @media (prefers-color-scheme: dark) {
            :root {
                --page: #151618;
                --surface: #1d1f22;
                --text: #ececee;
                --quiet: #a4a7ae;
                --line: #36393e;
                --hover: #26292d;
                --accent: #8fbcf5;
                --problem: #ff9b8f;
                --mark: #6b5500;
            }
        }

        * { box-sizing: border-box; }

        html { font: 100%/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; -webkit-text-size-adjust: 100%; scroll-padding-top: 4.5rem; overflow-anchor: none; }

        body {
            margin: 0;
            min-height: 100vh;
            display: grid;
            grid-template: auto 1fr / 15rem minmax(0, 1fr);
            background: var(--page);
            color: var(--text);
            font-size: 0.9375rem;
        }

        a { color: var(--accent); text-decoration: none; }
        a:hover, h2 a, .facts a, .prose a { text-decoration: underline; }

        :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
        h1:focus:not(:focus-visible) { outline: none; }

        /* The bar at the top, and the entities beside the content. */

        header {
            grid-column: 1 / -1;
            position: sticky;
            top: 0;
            z-index: 2;
            display: flex;
            align-items: center;
            gap: 1rem;
            padding: 0.625rem 1.5rem;
            background: var(--surface);
            border-bottom: 1px solid var(--line);
        }

        .brand { margin: 0; font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        .brand a { color: inherit; }

        #search { margin-left: auto; flex: 0 1 22rem; }
        #search input { width: 100%; }

        input, button {
            font: inherit;
            color: inherit;
            background: var(--page);
            border: 1px solid var(--line);
            border-radius: 6px;
            padding: 0.3125rem 0.625rem;
        }

        input { border-color: var(--quiet); }
        button { cursor: pointer; }
        button:hover { background: var(--hover); }
        ::placeholder { color: var(--quiet); opacity: 1; }

        #menu { display: none; }

        nav#navigation {
            position: sticky;
            top: 3.4rem;
            align-self: start;
            max-height: calc(100vh - 3.4rem);
            overflow-y: auto;
            padding: 1rem 0.75rem 1rem 1rem;
        }

        #navigation h2 { margin: 1.25rem 0.5rem 0.25rem; font-size: 0.75rem; font-weight: 600; color: var(--quiet); }
        #navigation ul { list-style: none; margin: 0; padding: 0; }
        #navigation a {
            display: flex;
            justify-content: space-between;
            gap: 0.5rem;
            padding: 0.25rem 0.5rem;
            border-radius: 6px;
            color: inherit;
        }
        #navigation a span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        #navigation a:hover { background: var(--hover); text-decoration: none; }
        #navigation a[aria-current] { background: var(--hover); color: var(--accent); font-weight: 600; }
        #navigation .note { font-weight: 400; font-variant-numeric: tabular-nums; }

        main { padding: 1.5rem 2rem 4rem 1rem; min-width: 0; }

        /* Text. */

        h1 { width: fit-content; max-width: 100%; margin: 0 0 0.25rem; font-size: 1.625rem; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
        h2 { margin: 2rem 0 0.5rem; font-size: 1.0625rem; line-height: 1.3; }
        .facts { margin: 0 0 1rem; color: var(--quiet); }
        .note { color: var(--quiet); }
        h2 .note { font-weight: 400; }
        .problem { color: var(--problem); }
        .badge {
            margin-left: 0.5rem;
            padding: 0.0625rem 0.4375rem;
            border: 1px solid var(--line);
            border-radius: 1rem;
            font-size: 0.75rem;
            font-weight: 400;
            letter-spacing: 0;
            color: var(--quiet);
            vertical-align: middle;
        }
        mark { background: var(--mark); color: var(--text); border-radius: 2px; }
        bdi { overflow-wrap: anywhere; }

        .spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

        .skip { position: absolute; left: 1rem; top: -4rem; z-index: 3; padding: 0.5rem 1rem; background: var(--surface); border: 1px solid var(--line); border-radius: 6px; }
        .skip:focus { top: 0.5rem; }

        /* Tables. */

        .scroll { overflow-x: auto; background: var(--surface); border: 1px solid var(--line); border-radius: 8px; }
        table { border-collapse: collapse; width: 100%; }
        th, td { padding: 0.4375rem 0.75rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
        th { font-weight: 500; }
        thead th { border-top: none; font-size: 0.8125rem; font-weight: 600; color: var(--quiet); white-space: nowrap; vertical-align: bottom; }
        thead button { font: inherit; font-weight: inherit; color: inherit; background: none; border: none; padding: 0; }
        thead button:hover { background: none; color: var(--text); text-decoration: underline; }
        th[aria-sort] { color: var(--text); }
        thead button { display: inline-flex; align-items: baseline; gap: 0.25rem; }
        thead .number button { flex-direction: row-reverse; }
        .arrow { font-size: 0.6875rem; }
        tbody tr:hover { background: var(--hover); }
        td bdi, td time { white-space: nowrap; }
        .objects td, .objects th { max-width: 22rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
        .objects th:first-child { position: sticky; left: 0; background: var(--surface); }
        .objects tbody tr:hover th { background: var(--hover); }
        .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
        td.wide { color: var(--quiet); min-width: 12rem; }
        time { font-variant-numeric: tabular-nums; }
        .thumbnail { display: block; height: 2.25rem; max-width: 5rem; object-fit: contain; border-radius: 3px; }

        .depth-1 { padding-left: 1.5rem; } .depth-2 { padding-left: 2.5rem; } .depth-3 { padding-left: 3.5rem; }
        .depth-4 { padding-left: 4.5rem; } .depth-5 { padding-left: 5.5rem; } .depth-6 { padding-left: 6.5rem; }
        #navigation .depth-1 { padding-left: 0.75rem; } #navigation .depth-2 { padding-left: 1.5rem; }
        #navigation .depth-3 { padding-left: 2.25rem; } #navigation .depth-4 { padding-left: 3rem; }
        #navigation .depth-5 { padding-left: 3.75rem; } #navigation .depth-6 { padding-left: 4.5rem; }

        .tools { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.75rem; margin: 0.75rem 0; }
        .tools input { width: 18rem; max-width: 100%; background: var(--surface); }
        .count { margin: 0 0 0 auto; color: var(--quiet); font-variant-numeric: tabular-nums; }

        .pager { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem; margin: 1rem 0; color: var(--quiet); font-variant-numeric: tabular-nums; }
        .pager[hidden] { display: none; }
        .trail { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 0 1rem; margin-bottom: 0.75rem; }
        .trail .facts, .trail .pager { margin: 0; }
        .step { padding: 0.25rem 0.625rem; border: 1px solid var(--line); border-radius: 6px; background: var(--surface); }
        .step:hover { text-decoration: none; background: var(--hover); }
        .step.off { border-color: transparent; background: none; }

        /* One object. */

        dl { display: grid; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr); margin: 1rem 0 0; padding: 0.25rem 1rem; background: var(--surface); border: 1px solid var(--line); border-radius: 8px; max-width: 60rem; }
        dt, dd { margin: 0; padding: 0.5rem 0; }
        dt { padding-right: 2rem; color: var(--quiet); }
        dt:not(:first-of-type), dd:not(:first-of-type) { border-top: 1px solid var(--line); }
        .text { white-space: pre-wrap; }
        figure { margin: 0; }
        .picture { display: block; max-width: 100%; max-height: 30rem; border-radius: 4px; }
        figcaption { margin-top: 0.375rem; font-size: 0.875rem; color: var(--quiet); }
        .members { margin: 0.5rem 0; padding-left: 1.5rem; columns: 18rem; column-gap: 2rem; max-width: 60rem; }
        .members li { padding: 0.125rem 0; break-inside: avoid; }
        .members li::marker { color: var(--quiet); font-variant-numeric: tabular-nums; }

        .results { list-style: none; margin: 0; padding: 0; max-width: 60rem; background: var(--surface); border: 1px solid var(--line); border-radius: 8px; }
        .results li { padding: 0.4375rem 1rem; border-top: 1px solid var(--line); }
        .results li:first-child { border-top: none; }
        .results p { margin: 0; font-size: 0.875rem; }

        /* The diagram. */

        .diagram { margin: 1rem 0 2rem; }
        .diagram .scroll { padding: 0.5rem; }
        svg { display: block; max-width: 100%; height: auto; margin: 0 auto; font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
        svg text { fill: var(--text); }
        svg .title { cursor: pointer; font-weight: 600; fill: var(--accent); }
        svg .abstract { font-style: italic; }
        svg .type { fill: var(--quiet); }
        svg .box { fill: var(--surface); stroke: var(--quiet); }
        svg .rule { stroke: var(--line); }
        svg .line { fill: none; stroke: var(--quiet); stroke-width: 1.25; }
        svg .inheritance { stroke-dasharray: 4 3; }
        svg .triangle { fill: var(--surface); stroke: var(--quiet); }

        /* Narrow windows: the entities are below a button. */

        @media (max-width: 48rem) {
            body { display: block; }
            header { position: static; flex-wrap: wrap; padding: 0.5rem 1rem; gap: 0.5rem; }
            .brand { flex: 1 1 0; }
            #menu { display: block; }
            #search { flex: 1 1 100%; margin: 0; }
            nav#navigation { display: none; position: static; max-height: none; padding: 0.5rem 1rem 1rem; border-bottom: 1px solid var(--line); background: var(--surface); }
            nav#navigation.open { display: block; }
            main { padding: 1rem 1rem 3rem; }
            dl { grid-template-columns: minmax(0, 1fr); }
            dt { padding-bottom: 0; font-size: 0.875rem; }
            dd { padding-top: 0; }
            dd:not(:first-of-type) { border-top: none; }
            .objects td, .objects th { max-width: 14rem; }
            .tools input { flex: 1 1 10rem; width: auto; }
        }

        @media (prefers-reduced-motion: no-preference) {
            #navigation a, .step, tbody tr { transition: background-color 0.1s; }
        }

        @media print {
            :root { --page: #ffffff; --surface: #ffffff; --text: #000000; --quiet: #444444; --line: #bbbbbb; --accent: #000000; --hover: #ffffff; }
            body { display: block; font-size: 9.5pt; }
            header, #navigation, .tools, .pager, .skip, section > button { display: none !important; }
            main { padding: 0; }
            .scroll { overflow: visible; border: none; }
            .objects td, .objects th { white-space: normal; }
            svg { min-width: 0 !important; }
            tr, dd, figure { break-inside: avoid; }
            thead { display: table-header-group; }
        }
        """#
}
