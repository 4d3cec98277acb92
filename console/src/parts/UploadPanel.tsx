/** Uploads files and folders into a category, and shows the fate of each. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select, { type SelectProps } from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import type { Categories, Tier } from "../api/schema";
import { useTyped } from "./Unsaved";
import { UploadDrop } from "./UploadDrop";
import { UploadList } from "./UploadList";
import { uploads } from "./UploadQueue";

const TIERS: Record<Tier, string> = {
  internal: "of this organisation, the most trusted",
  specialized: "of specialists, such as a vendor",
  internet: "from the internet, the least trusted",
};
const RULES: SelectProps.Option = { value: "", label: "By folder and rules", description: "As knowledge.yaml says for the file's name" };

export function UploadPanel({ categories }: { categories: Categories }) {
  const all = useSyncExternalStore(uploads.subscribe, uploads.snapshot);
  const [open, setOpen] = useState(false);
  const [tier, setTier] = useState<Tier>("internal");
  const [category, setCategory] = useState<SelectProps.Option | null>(RULES);
  const [folder, setFolder, release] = useTyped("");
  useRefresh(all.filter(({ fate }) => fate === "ingested").length);
  return (
    <ExpandableSection
      variant="container"
      headerText="Upload documents"
      headerDescription="Files and folders, 100 MB a file"
      expanded={open}
      onChange={({ detail }) => setOpen(detail.expanded)}
    >
      <SpaceBetween size="m">
        <ColumnLayout columns={3}>
          <FormField label="Tier" description="Where the knowledge comes from">
            <Select
              selectedOption={{ value: tier, label: tier }}
              options={(Object.keys(TIERS) as Tier[]).map((value) => ({ value, label: value, description: TIERS[value] }))}
              onChange={({ detail }) => {
                const chosen = detail.selectedOption.value as Tier;
                setTier(chosen);
                setCategory(optionsOf(categories, chosen)[0] ?? null);
              }}
            />
          </FormField>
          <FormField label="Category" description="It decides trust and retention">
            <Select
              selectedOption={category}
              options={optionsOf(categories, tier)}
              empty="This tier has no category"
              filteringType="auto"
              filteringAriaLabel="Find a category"
              onChange={({ detail }) => setCategory(detail.selectedOption)}
            />
          </FormField>
          <FormField label="Folder (optional)" description="Put before the names of the files">
            <Input value={folder} placeholder="teams/shop" onChange={({ detail }) => setFolder(detail.value)} />
          </FormField>
        </ColumnLayout>
        {category ? (
          <UploadDrop
            onFiles={(files) => {
              release();
              uploads.add(files, folder, category.value ? { category: category.value } : {});
            }}
          />
        ) : null}
        <Box variant="small">A file with the name of a stored document becomes its new version. Hidden files are left out.</Box>
        {all.length ? <UploadList uploads={all} /> : null}
        {all.some(({ fate }) => fate === "failed") ? (
          <Button onClick={() => uploads.retry(all.filter(({ fate }) => fate === "failed").map(({ id }) => id))}>
            Try all failed ones again
          </Button>
        ) : null}
      </SpaceBetween>
    </ExpandableSection>
  );
}

/** Categories of a tier. Those of the rules may be of any tier, so that only the most trusted tier offers them. */
function optionsOf({ categories, defaultCategory }: Categories, tier: Tier): SelectProps.Option[] {
  const own = categories
    .filter((one) => one.tier === tier)
    .map((one) => ({ value: one.path, label: one.path, description: one.description, labelTag: `trust ${one.trust}` }));
  const rules = { ...RULES, description: `${RULES.description}, else ${defaultCategory}` };
  return tier === "internal" ? [rules, ...own] : own;
}

/** Loads lists of documents again as uploads are ingested. */
function useRefresh(ingested: number): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (ingested) void queries.invalidateQueries({ queryKey: ["documents"] });
  }, [ingested, queries]);
}
