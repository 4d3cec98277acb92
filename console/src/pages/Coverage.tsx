export default function Coverage() {
  return <p>Coverage</p>;
}
