import Alert from "@cloudscape-design/components/alert";

export default function NotFound() {
  return <Alert header="There is no such page">Choose one of the pages at the side.</Alert>;
}
