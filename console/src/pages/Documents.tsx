/** Documents by category, and uploads of new ones. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Select, { type SelectProps } from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import Toggle from "@cloudscape-design/components/toggle";
import { infiniteQueryOptions, useInfiniteQuery, usePrefetchInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, data } from "../api/client";
import type { Categories, KnowledgeDocument } from "../api/schema";
import { DocumentFinder } from "../parts/DocumentFinder";
import { day, StateMark, Trust } from "../parts/DocumentMarks";
import { Problem } from "../parts/Failed";
import { Loaded } from "../parts/Loaded";
import { useRows } from "../parts/Rows";
import { UploadPanel } from "../parts/UploadPanel";

const PAGE = 100;
const ALL: SelectProps.Option = { value: "", label: "All categories" };

const COLUMNS: TableProps.ColumnDefinition<KnowledgeDocument>[] = [
  {
    id: "title",
    header: "Title",
    isRowHeader: true,
    minWidth: 220,
    cell: (one) => <Link href={`#/documents/${one.documentId}`}>{one.title}</Link>,
  },
  { id: "category", header: "Category", minWidth: 150, cell: (one) => one.category },
  { id: "state", header: "State", minWidth: 130, cell: (one) => <StateMark state={one.state ?? "current"} /> },
  { id: "version", header: "Version", cell: (one) => one.version },
  { id: "owner", header: "Owner", cell: (one) => one.owner || "–" },
  { id: "review", header: "Review by", minWidth: 120, cell: (one) => day(one.reviewBy) },
  { id: "updated", header: "Updated", minWidth: 120, cell: (one) => day(one.metadata.lastUpdated) },
  { id: "trust", header: "Trust", minWidth: 120, cell: (one) => <Trust document={one} /> },
];

export default function Documents() {
  const categories = useQuery({ queryKey: ["categories"], queryFn: () => data(api.GET("/categories")) });
  usePrefetchInfiniteQuery(documentsOf(filterOf(useSearchParams()[0])));
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Documents</Header>
      <DocumentFinder />
      <Loaded query={categories}>
        {(found) => (
          <SpaceBetween size="l">
            <UploadPanel categories={found} />
            <List categories={found} />
          </SpaceBetween>
        )}
      </Loaded>
    </SpaceBetween>
  );
}

interface Filter {
  category: string;
  allVersions: boolean;
  expired: boolean;
}

const filterOf = (params: URLSearchParams): Filter => ({
  category: params.get("category") ?? "",
  allVersions: params.has("versions"),
  expired: params.has("expired"),
});

const documentsOf = (filter: Filter) =>
  infiniteQueryOptions({
    queryKey: ["documents", filter],
    queryFn: ({ pageParam }) =>
      data(api.GET("/documents", { params: { query: { ...filter, limit: PAGE, after: pageParam } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
  });

function List({ categories }: { categories: Categories }) {
  const [params, setParams] = useSearchParams();
  const filter = filterOf(params);
  const found = useInfiniteQuery(documentsOf(filter));
  const documents = found.data?.pages.flatMap((page) => page.documents) ?? [];
  const rows = useRows(documents);
  const set = (name: string, value: string): void =>
    setParams((before) => {
      before.delete(name);
      if (value) before.set(name, value);
      return before;
    });
  return (
    <Table
      wrapLines
      stickyHeader
      enableKeyboardNavigation
      loading={found.isPending && !found.failureReason}
      loadingText="Loading the documents"
      columnDefinitions={COLUMNS}
      items={rows}
      trackBy={(one) => `${one.key} ${one.version}`}
      ariaLabels={{ tableLabel: "Documents" }}
      header={
        <Header counter={`(${documents.length}${found.hasNextPage ? "+" : ""})`} description="By category, the last updated first">
          In the knowledge base
        </Header>
      }
      filter={<Filters categories={categories} filter={filter} set={set} />}
      empty={found.error || found.failureReason ? <Away error={found.error ?? found.failureReason} /> : <Box>No documents</Box>}
      footer={
        <SpaceBetween size="s" alignItems="center">
          {found.error && documents.length ? <Problem error={found.error} again={() => void found.refetch()} /> : null}
          {found.hasNextPage ? (
            <Button loading={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
              Load more
            </Button>
          ) : null}
        </SpaceBetween>
      }
    />
  );
}

const Away = ({ error }: { error: unknown }) => <Problem error={error} />;

interface FiltersProps {
  categories: Categories;
  filter: Filter;
  set: (name: string, value: string) => void;
}

function Filters({ categories, filter, set }: FiltersProps) {
  const options = [ALL, ...pathsOf(categories)];
  return (
    <SpaceBetween size="m" direction="horizontal" alignItems="end">
      <FormField label="Category">
        <Select
          selectedOption={options.find(({ value }) => value === filter.category) ?? { value: filter.category }}
          options={options}
          filteringType="auto"
          filteringAriaLabel="Find a category"
          onChange={({ detail }) => set("category", detail.selectedOption.value ?? "")}
        />
      </FormField>
      <Toggle checked={filter.allVersions} onChange={({ detail }) => set("versions", detail.checked ? "all" : "")}>
        Old and deleted versions
      </Toggle>
      <Toggle checked={filter.expired} onChange={({ detail }) => set("expired", detail.checked ? "shown" : "")}>
        Expired ones
      </Toggle>
    </SpaceBetween>
  );
}

/** Paths of categories, and the beginnings that several share. */
function pathsOf({ categories }: Categories): SelectProps.Option[] {
  const folders = categories.flatMap(({ path }) => path.split("/").map((_, count, parts) => parts.slice(0, count).join("/")));
  const descriptions = new Map(categories.map(({ path, description }) => [path, description]));
  const paths = new Set([...folders.filter(Boolean), ...descriptions.keys()]);
  return [...paths].sort().map((value) => ({ value, label: value, description: descriptions.get(value) ?? "all below it" }));
}
