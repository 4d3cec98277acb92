export default function Documents() {
  return <p>Documents</p>;
}
