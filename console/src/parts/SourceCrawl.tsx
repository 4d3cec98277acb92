/** Ingests a web site now: it becomes a source that is pulled on request. */
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Textarea from "@cloudscape-design/components/textarea";
import { Problem } from "./Failed";
import { CategoryField } from "./SourceForm";
import { type Crawl, type Notify, useCrawl } from "./SourceQueries";
import { useTyped } from "./Unsaved";

interface Fields {
  urls: string;
  sitemaps: string;
  category: string;
  depth: string;
  maxPages: string;
  include: string;
  exclude: string;
}

const EMPTY: Fields = { urls: "", sitemaps: "", category: "", depth: "", maxPages: "", include: "", exclude: "" };

const lines = (text: string): string[] => text.split("\n").map((line) => line.trim()).filter(Boolean);

function requestOf({ urls, sitemaps, category, depth, maxPages, include, exclude }: Fields): Crawl {
  return {
    urls: lines(urls),
    sitemaps: lines(sitemaps),
    category,
    include: lines(include),
    exclude: lines(exclude),
    ...(depth.trim() ? { depth: Number(depth) } : {}),
    ...(maxPages.trim() ? { maxPages: Number(maxPages) } : {}),
  };
}

interface Props {
  notify: Notify;
  watch: () => void;
  close: () => void;
}

export function SourceCrawl({ notify, watch, close }: Props) {
  const [fields, setFields] = useTyped(EMPTY);
  const crawl = useCrawl({ notify, watch }, close);
  const set = (some: Partial<Fields>): void => setFields((before) => ({ ...before, ...some }));
  const ready = fields.category && (lines(fields.urls).length || lines(fields.sitemaps).length);
  return (
    <Modal visible size="large" header="Crawl a web site" closeAriaLabel="Close" onDismiss={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          crawl.mutate(requestOf(fields));
        }}
      >
        <Form
          actions={
            <SpaceBetween size="xs" direction="horizontal">
              <Button formAction="none" onClick={close}>
                {crawl.isPending ? "Close" : "Cancel"}
              </Button>
              <Button variant="primary" formAction="submit" loading={crawl.isPending} disabled={!ready}>
                Crawl
              </Button>
            </SpaceBetween>
          }
        >
          <Site fields={fields} set={set} />
          {crawl.isPending ? (
            <StatusIndicator type="in-progress">The site is pulled; that goes on when this is closed.</StatusIndicator>
          ) : null}
          {crawl.error ? <Problem error={crawl.error} /> : null}
        </Form>
      </form>
    </Modal>
  );
}

function Site({ fields, set }: { fields: Fields; set: (some: Partial<Fields>) => void }) {
  return (
    <SpaceBetween size="m">
      <FormField label="Addresses to start at" description="One a line. The crawl stays on their hosts and within robots.txt." stretch>
        <Textarea rows={3} value={fields.urls} placeholder="https://docs.example.org/" onChange={({ detail }) => set({ urls: detail.value })} />
      </FormField>
      <FormField label="Sitemaps" description="One a line" stretch>
        <Textarea rows={2} value={fields.sitemaps} onChange={({ detail }) => set({ sitemaps: detail.value })} />
      </FormField>
      <CategoryField value={fields.category} change={(category) => set({ category })} />
      <ExpandableSection headerText="Limits">
        <SpaceBetween size="m">
          <FormField label="Depth" constraintText="How many links to follow from the start: 0 to 20">
            <Input type="number" value={fields.depth} onChange={({ detail }) => set({ depth: detail.value })} />
          </FormField>
          <FormField label="Pages at most" constraintText="1 to 100000">
            <Input type="number" value={fields.maxPages} onChange={({ detail }) => set({ maxPages: detail.value })} />
          </FormField>
          <FormField label="Paths to stay within" description="One a line" stretch>
            <Textarea rows={2} value={fields.include} placeholder="/guides/" onChange={({ detail }) => set({ include: detail.value })} />
          </FormField>
          <FormField label="Paths to leave out" description="One a line" stretch>
            <Textarea rows={2} value={fields.exclude} onChange={({ detail }) => set({ exclude: detail.value })} />
          </FormField>
        </SpaceBetween>
      </ExpandableSection>
    </SpaceBetween>
  );
}
