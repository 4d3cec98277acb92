export default function Sources() {
  return <p>Sources</p>;
}
